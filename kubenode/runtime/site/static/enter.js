// The address that a program printed: go on by itself, as its button would.
document.getElementById("enter").requestSubmit();
