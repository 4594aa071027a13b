"""Components of this host: the versions, files and units that the Machine assigns."""
