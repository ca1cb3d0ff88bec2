"""For people who are not trusted or not here: the server, the workbench, clients, assistants, notebooks."""
