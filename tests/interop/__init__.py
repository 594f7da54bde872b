"""Our servers with Apache's clients, tools and servers."""
