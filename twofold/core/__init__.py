"""The core: configuration, experience, replay, collecting, training, evaluating, saving. It knows no domain."""
