package proxy

import "net/http"

// unfit returns the refusal of a request that a reverse proxy has no use for, or nil. All of them are ways to write a
// request that the gate would see another path of than the application.
func unfit(r *http.Request) *problem {
	switch {
	case r.Method == http.MethodConnect:
		return &problem{Status: http.StatusMethodNotAllowed, Title: "Method not allowed", Detail: "There are no tunnels here."}
	case r.URL.Opaque != "", r.URL.Path == "*" && r.Method != http.MethodOptions:
		return &problem{Status: http.StatusBadRequest, Title: "Bad request", Detail: "The target of the request is not a path."}
	}
	return nil
}
