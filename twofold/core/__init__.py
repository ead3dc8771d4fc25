"""The learning loop and nothing else: experience, replay, collecting, training, evaluating. It knows no domain."""
