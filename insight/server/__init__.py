"""The receiver of the stream, and the API of the analyses."""
