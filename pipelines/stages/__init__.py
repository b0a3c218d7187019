"""One module a DVC stage; each is a thin command around a function of `specdecode`."""
