"""Cases over HTTP: the contract as a client sees it."""
