"""The recommender over HTTP: answers, feedback, limits, and a description of itself."""

import asyncio
import json

import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")

from twofold.recsys.recommend import load_recommender
from twofold.recsys.server import app_of
from twofold.recsys.service import MOST_WAITING, Ask, Busy, Service
from twofold.recsys.stream import PairMemory


@pytest.fixture
def service(run):
    return Service(load_recommender(run))


def ask(service, method, path, body=b"", host="127.0.0.1", **headers):
    """Status and JSON of one request to the application itself."""
    path, _, query = path.partition("?")
    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "root_path": ""}
    sent_headers = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    sent_headers.append((b"host", host.encode()))
    scope |= {"query_string": query.encode(), "headers": sent_headers, "http_version": "1.1"}
    sent = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    asyncio.run(app_of(service)(scope | {"scheme": "http", "server": ("127.0.0.1", 80)}, receive, send))
    content = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], json.loads(content) if content[:1] in b"{[" else content.decode()


def post(service, path, **body):
    return ask(service, "POST", path, json.dumps(body).encode())


@pytest.mark.parametrize("by", ["rating", "count", "policy"])
def test_another_ranking_is_served_by_name(service, by):
    wanted = [entry.name for entry in service.recommender.recommend(user="17", k=4, by=by)]
    asked = (
        post(service, "/recommend", user="17", k=4, by=by),
        ask(service, "GET", f"/recommend?user=17&k=4&by={by}"),
    )
    started = post(Service(service.recommender, by), "/recommend", user="17", k=4)
    for status, answer in (*asked, started):
        assert status == 200 and [one["item"] for one in answer["items"]] == wanted


def test_rankings_that_are_not_there_are_refused(service):
    assert ask(service, "GET", "/recommend?by=luck")[0] == 422
    status, answer = post(service, "/recommend", user="17", by="taken")
    assert status == 422 and "train it with env_args.reward=both" in answer["error"]


def test_recommend_answers_what_python_does(service):
    status, answer = post(service, "/recommend", user="17", history=[{"item": "3", "rating": 5}], k=4)
    wanted = service.recommender.recommend(user="17", history=[("3", 5)], k=4)
    assert status == 200 and answer["known"] is True
    assert [one["item"] for one in answer["items"]] == [entry.name for entry in wanted]
    assert answer["items"][0]["value"] == pytest.approx(wanted[0].value, abs=1e-4)


def test_a_question_may_stand_in_the_address(service):
    assert ask(service, "GET", "/recommend?user=17&k=4")[1] == post(service, "/recommend", user="17", k=4)[1]


def test_an_unknown_user_is_said_to_be_unknown(service):
    status, answer = post(service, "/recommend", user="nobody")
    assert status == 200 and answer["known"] is False and len(answer["items"]) == 10


def test_what_one_user_quits_at_is_known_of_all(service):
    memory = service.recommender.memory = PairMemory(24, 0.02)
    for told in ({"user": "1", "item": "3"}, {"user": "1", "item": "5"}, {"user": "2", "item": "7"}):
        assert post(service, "/feedback", **told)[0] == 200
    assert post(service, "/feedback", user="2", item="9", quit=True)[0] == 200
    place = service.recommender.labels.item_numbers
    assert memory.close[place["3"], place["5"]] == 0
    assert memory.close[place["9"], place["7"]] == pytest.approx(0.999)


def test_feedback_counts_in_the_next_answer(service):
    first = post(service, "/recommend", user="17", k=1)[1]["items"][0]["item"]
    assert post(service, "/feedback", user="17", item=first, rating=1) == (
        200,
        {"user": "17", "remembered": 1},
    )
    after = [one["item"] for one in post(service, "/recommend", user="17", k=13)[1]["items"]]
    assert first not in after
    other = [one["item"] for one in post(service, "/recommend", user="16", k=24)[1]["items"]]
    assert first in other or first in service.recommender.labels.items


@pytest.mark.parametrize(
    "path, body, status, words",
    [
        ("/recommend", b"{", 400, "JSON"),
        ("/recommend", b'{"k": 0}', 422, "k: Input should be greater than or equal to 1"),
        ("/recommend", b'{"k": 100000}', 422, "k: "),
        ("/recommend", b'{"users": "17"}', 422, "users: "),
        ("/recommend", b'{"k": "5"}', 422, "k: "),
        ("/recommend", b'{"history": [{"item": "hat"}]}', 422, "no item 'hat'"),
        ("/recommend", b'{"history": [{"item": "3", "rating": 9}]}', 422, "the rating 9 is not in 1..5"),
        ("/recommend", b'{"history": [{"item": "3", "rating": NaN}]}', 422, "finite"),
        ("/recommend", b" " * 1_000_001, 413, "1000000 bytes"),
        ("/feedback", b'{"user": "17"}', 422, "item: Field required"),
        ("/feedback", b'{"user": "17", "item": "hat"}', 422, "no item 'hat'"),
    ],
)
def test_bad_requests_are_refused_in_words(service, path, body, status, words):
    found, answer = ask(service, "POST", path, body)
    assert (found, words in answer["error"]) == (status, True), (found, answer)


def test_other_methods_addresses_and_hosts_are_refused(service):
    assert ask(service, "DELETE", "/recommend")[0] == 405
    assert ask(service, "GET", "/nothing")[0] == 404
    assert ask(service, "GET", "/recommend?colour=red")[0] == 422
    assert ask(service, "GET", "/recommend?k=many")[0] == 422
    assert ask(service, "GET", "/health", host="evil.example")[0] == 400


@pytest.mark.parametrize(
    ("host", "headers", "status"),
    [
        ("127.0.0.1:8000", {"origin": "https://evil.example"}, 403),
        ("127.0.0.1:8000", {"origin": "null"}, 403),
        ("127.0.0.1:8000", {"origin": "http://127.0.0.1:9000"}, 403),
        ("127.0.0.1:8000", {"sec_fetch_site": "cross-site"}, 403),
        ("127.0.0.1:8000", {"origin": "http://127.0.0.1:8000", "sec_fetch_site": "same-origin"}, 200),
        ("127.0.0.1:8000", {"origin": "http://127.0.0.1:8000"}, 200),
        ("[::1]:8000", {}, 200),
        ("127.0.0.1.evil.example", {}, 400),
    ],
)
def test_a_page_elsewhere_cannot_make_a_browser_give_feedback(service, host, headers, status):
    body = json.dumps({"user": "17", "item": "3"}).encode()
    assert ask(service, "POST", "/feedback", body, host, **headers)[0] == status


def test_health_and_the_page_say_what_is_served(service):
    status, answer = ask(service, "GET", "/health")
    assert (status, answer["users"], answer["items"], answer["high"]) == (200, 20, 24, 5.0)
    assert answer["data"] == service.recommender.labels.digest
    assert "<h1>Recommendations</h1>" in ask(service, "GET", "/")[1]
    assert ask(service, "GET", "/users")[1][:2] == ["0", "1"]
    assert len(ask(service, "GET", "/users/17")[1]) == 10


def test_the_description_names_every_part_that_it_refers_to(service):
    found = ask(service, "GET", "/openapi.json")[1]
    assert set(found["paths"]) == {"/recommend", "/feedback", "/health"}
    parts = found["components"]["schemas"]
    referred = [word.split('"')[0] for word in json.dumps(found).split("#/components/schemas/")[1:]]
    assert referred and set(referred) <= set(parts)
    assert parts["Ask"]["properties"]["k"]["maximum"] == 1000


def test_questions_that_wait_are_answered_together_and_a_bad_one_spoils_no_other(service, monkeypatch):
    passes = []
    answers = service.recommender.answers
    monkeypatch.setattr(
        service.recommender, "answers", lambda qs, *more: passes.append(len(qs)) or answers(qs, *more)
    )

    async def many():
        asks = [Ask(user=str(user), k=1 + user % 3) for user in range(9)]
        bad = Ask.model_validate({"history": [{"item": "hat"}]})
        return await asyncio.gather(*(service.recommend(one) for one in [*asks, bad]), return_exceptions=True)

    *good, bad = asyncio.run(many())
    assert [len(answer.items) for answer in good] == [1 + user % 3 for user in range(9)]
    assert "no item 'hat'" in str(bad) and passes == [9]


def test_a_fault_of_the_service_leaves_nobody_waiting(service, monkeypatch):
    def broken(*given):
        raise RuntimeError("broken")

    monkeypatch.setattr(service.recommender, "answers", broken)

    async def two():
        return await asyncio.gather(*(service.recommend(Ask(k=1)) for _ in range(2)), return_exceptions=True)

    assert [str(error) for error in asyncio.run(asyncio.wait_for(two(), 30))] == ["broken", "broken"]


def test_too_many_questions_are_turned_away(service):
    async def crowd():
        asks = [service.recommend(Ask(k=1)) for _ in range(MOST_WAITING + 1)]
        return await asyncio.gather(*asks, return_exceptions=True)

    found = asyncio.run(crowd())
    assert isinstance(found[-1], Busy) and not isinstance(found[0], Exception)
