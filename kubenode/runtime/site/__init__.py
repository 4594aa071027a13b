"""What web sites for people share: their look, plots, logins and the validation of requests."""
