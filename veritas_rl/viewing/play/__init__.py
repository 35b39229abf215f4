"""A person plays a game against a player: at the `Table`, through a page of this machine or by typing."""
