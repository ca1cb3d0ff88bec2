"""The curator: the only room that sees exact answers; it charges first, then asks the engine, then adds noise."""
