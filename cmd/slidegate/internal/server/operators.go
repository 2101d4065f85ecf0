package server

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/problemjson"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/top"
)

// listTop answers GET /v1/top?n=20: the keys that were refused the most.
func (s *Server) listTop(w http.ResponseWriter, r *http.Request) {
	n := 20
	if text := r.URL.Query().Get("n"); text != "" {
		given, err := strconv.Atoi(text)
		if err != nil || given < 1 || given > top.MaxKeys {
			problemjson.Document{Status: http.StatusBadRequest, Detail: "n: must be 1 to " + strconv.Itoa(top.MaxKeys)}.Send(w)
			return
		}
		n = given
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(map[string]any{"keys": s.top.List(n)}) // the client may be gone
}
