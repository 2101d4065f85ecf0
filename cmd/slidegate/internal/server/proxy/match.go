package proxy

import (
	"net/http"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/problemjson"
)

// unfit returns the refusal of a request that a reverse proxy has no use for, or nil. All of them are ways to write a
// request that the gate would see another path of than the application.
func unfit(r *http.Request) *problemjson.Document {
	switch {
	case r.Method == http.MethodConnect:
		return &problemjson.Document{Status: http.StatusMethodNotAllowed, Detail: "There are no tunnels here."}
	case r.URL.Opaque != "", r.URL.Path == "*" && r.Method != http.MethodOptions:
		return &problemjson.Document{Status: http.StatusBadRequest, Detail: "The target of the request is not a path."}
	}
	return nil
}
