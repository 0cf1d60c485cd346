"""The operating system, git, the environment, child processes, import of users' files."""
