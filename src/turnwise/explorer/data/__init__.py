"""What the explorer shows, without a web page: read from a store and what is named beside it."""
