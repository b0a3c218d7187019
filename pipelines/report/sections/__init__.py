"""The sections of the page, one topic a file; each is a pure function of the inputs."""
