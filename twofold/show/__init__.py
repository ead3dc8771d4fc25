"""What a person sees: progress, curves, films."""
