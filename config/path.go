package config

// CleanPath returns a path without percent-encoding in the form of the field path of a live request: cleaned as http.ServeMux
// does, so that //login and /login are one key in recorded traffic too.
func CleanPath(path string) string { return cleanPath(path) }
