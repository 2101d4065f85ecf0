package server

import (
	"encoding/json"
	"net/http"
	"reflect"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/problemjson"
	"github.com/slidegate/slidegate/config"
)

// Changes are what a reload changed. The zero value is none.
type Changes struct {
	// Added, Removed and Changed are the names of policies.
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
	Changed []string `json:"changed"`
	// Service is whether fields beside the policies changed. Those about the store take effect at a restart.
	Service bool `json:"service"`
	// Envoy, Tokens and Certificates are whether these changed.
	Envoy        bool `json:"envoy"`
	Tokens       bool `json:"tokens"`
	Certificates bool `json:"certificates"`
}

// any reports whether anything changed.
func (c *Changes) any() bool {
	return len(c.Added)+len(c.Removed)+len(c.Changed) > 0 || c.Service || c.Envoy || c.Tokens || c.Certificates
}

// compare fills in what two files have different.
func (c *Changes) compare(old, now *config.File) {
	before := make(map[string]*config.Policy, len(old.Policies))
	for i := range old.Policies {
		before[old.Policies[i].Name] = &old.Policies[i]
	}
	for i := range now.Policies {
		p := &now.Policies[i]
		switch was := before[p.Name]; {
		case was == nil:
			c.Added = append(c.Added, p.Name)
		case !reflect.DeepEqual(was, p):
			c.Changed = append(c.Changed, p.Name)
		}
		delete(before, p.Name)
	}
	for i := range old.Policies {
		if before[old.Policies[i].Name] != nil {
			c.Removed = append(c.Removed, old.Policies[i].Name)
		}
	}
	same := *old
	same.Policies = now.Policies
	c.Service = !reflect.DeepEqual(&same, now)
}

// running is what /v1/config tells about the policies in force. The hash is that of the metrics.
type running struct {
	Hash   string    `json:"hash"`
	Loaded time.Time `json:"loaded"`
	Paths  []string  `json:"paths,omitempty"`
	Config string    `json:"config,omitempty"`
}

// running returns the policies in force; with the text, as config print writes it.
func (s *Server) running(withText bool) running {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	r := running{Hash: *s.hash.Load(), Loaded: s.loaded.UTC(), Paths: s.opts.Paths}
	if withText {
		r.Config = string(config.Format(s.file))
	}
	return r
}

// showConfig serves GET /v1/config.
func (s *Server) showConfig(w http.ResponseWriter, _ *http.Request) { sendJSON(w, s.running(true)) }

// serveReload serves POST /v1/reload.
func (s *Server) serveReload(w http.ResponseWriter, _ *http.Request) {
	changes, err := s.ReloadChanges()
	if err != nil {
		problemjson.Document{
			Status: http.StatusUnprocessableEntity, Detail: "what is wrong was not reloaded, and stays as it was: " + err.Error(),
		}.Send(w)
		return
	}
	sendJSON(w, struct {
		Changes
		running
	}{changes.listed(), s.running(false)})
}

// listed has empty lists where there are none, so that clients need not know null.
func (c Changes) listed() Changes {
	for _, list := range []*[]string{&c.Added, &c.Removed, &c.Changed} {
		if *list == nil {
			*list = []string{}
		}
	}
	return c
}

func sendJSON(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(answer) // the client may be gone
}
