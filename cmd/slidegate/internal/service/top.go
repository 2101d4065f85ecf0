package service

import (
	"net/http"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate/problemjson"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/seen"
)

// maxTopKeys is the most entries of /v1/top.
const maxTopKeys = 1000

// RefusedKey is an entry of /v1/top, which programs used before there was /v1/seen.
type RefusedKey struct {
	Policy string `json:"policy"`
	Key    string `json:"key"`            // up to 1,024 bytes whole; the text of an Envoy descriptor
	Rule   string `json:"rule,omitempty"` // the Envoy rule that it used most: its name, or its path of keys
	// Refused is the number of refusals since this instance tracks the key. TooMany is 0: it said by how much Refused might be too high.
	Refused int64     `json:"refused"`
	TooMany int64     `json:"too_many"`
	Last    time.Time `json:"last"`
	Limits  []string  `json:"limits"`           // the limits that apply to the key now; empty if none do any more, or if no limit refused it last
	Shadow  bool      `json:"shadow,omitempty"` // it was last admitted all the same, because of shadow mode
}

// listTop serves GET /v1/top?n=20: the keys that this instance refused most often.
func (s *Server) listTop(w http.ResponseWriter, r *http.Request) {
	n, ok := listLength(w, r, 20, maxTopKeys)
	if !ok {
		return
	}
	keys := []RefusedKey{}
	for _, k := range s.record.Refused(n) {
		one := RefusedKey{Policy: k.Policy, Key: k.Key, Rule: k.Rule, Refused: k.Refused, Last: k.Last, Limits: []string{}, Shadow: k.Shadow}
		if k.By == seen.ByLimits || k.By == seen.ByPenalty || k.By == seen.ByNever {
			for _, limit := range s.limitsOf(k.Policy, k.Key) {
				one.Limits = append(one.Limits, limit.String())
			}
		}
		keys = append(keys, one)
	}
	problemjson.SendJSON(w, map[string]any{"keys": keys})
}
