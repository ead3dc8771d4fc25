// Questions to the server. The token came in the fragment of the address, which is never sent; a header carries it.

const KEY = "twofold-token";

export function takeToken() {
  const given = /^#token=([\w-]+)$/.exec(location.hash);
  if (!given) return;
  localStorage.setItem(KEY, given[1]);
  history.replaceState(null, "", "#/runs");
}

async function send(name, question) {
  const answer = await fetch(`/api/${name}`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-twofold-token": localStorage.getItem(KEY) ?? "" },
    body: JSON.stringify(question),
  });
  if (answer.status === 403) throw new Error(await answer.text());
  if (!answer.ok) throw new Error((await answer.json()).error ?? `the server answered ${answer.status}`);
  return answer;
}

export const ask = async (name, question = {}) => (await send(name, question)).json();
export const askFile = async (name, question = {}) => (await send(name, question)).blob();
