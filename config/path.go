package config

// CleanPath returns a path, without percent-encoding, as the field path of a live request has it: cleaned as http.ServeMux
// does, so that //login and /login are one key in recorded traffic too.
func CleanPath(path string) string { return cleaned(path) }
