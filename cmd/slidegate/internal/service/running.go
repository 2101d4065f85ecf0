package service

import (
	"cmp"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate/problemjson"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/internal/errtext"
)

// Changes describes what a reload changed. The zero value means nothing.
type Changes struct {
	// Added, Removed and Changed are the names of policies.
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
	Changed []string `json:"changed"`
	// Service reports whether fields other than the policies changed.
	Service bool `json:"service"`
	// Envoy, Tokens and Certificates report whether these changed.
	Envoy        bool `json:"envoy"`
	Tokens       bool `json:"tokens"`
	Certificates bool `json:"certificates"`
}

// any reports whether anything changed.
func (c *Changes) any() bool {
	return len(c.Added)+len(c.Removed)+len(c.Changed) > 0 || c.Service || c.Envoy || c.Tokens || c.Certificates
}

// compare sets the differences between two files.
func (c *Changes) compare(old, now *config.File) {
	c.Added, c.Removed, c.Changed = gate.Compare(old, now)
	c.Service = !reflect.DeepEqual(old.Service, now.Service) || !reflect.DeepEqual(old.Envoy, now.Envoy)
}

// Running is the response to /v1/config: the policies in force. The hash is the same as in the metrics.
type Running struct {
	Hash   string    `json:"hash"`
	Loaded time.Time `json:"loaded"`
	Paths  []string  `json:"paths,omitempty"`
	Config string    `json:"config,omitempty"`
	// Restart lists what in the files is not in force, because only a restart changes it.
	Restart []Restart `json:"restart_needed"`
	// NotApplied lists the rulings that the policies cannot apply, such as one about a prefix that is longer than the groups of addresses.
	NotApplied []NotApplied `json:"rulings_not_applied"`
}

// running returns the policies in force, optionally with their text as config print writes it.
func (s *Server) running(withText bool) Running {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	r := Running{Hash: *s.hash.Load(), Loaded: s.loaded.UTC(), Paths: s.opts.Paths, Restart: append([]Restart{}, s.restart...), NotApplied: s.notApplied()}
	if withText {
		r.Config = annotate(string(config.Format(s.file)), s.restart)
	}
	return r
}

// showConfig serves GET /v1/config.
func (s *Server) showConfig(w http.ResponseWriter, _ *http.Request) {
	problemjson.SendJSON(w, s.running(true))
}

// serveReload serves POST /v1/reload.
func (s *Server) serveReload(w http.ResponseWriter, _ *http.Request) {
	changes, err := s.ReloadChanges()
	if err != nil {
		problemjson.Document{
			Status: http.StatusUnprocessableEntity, Detail: "invalid parts were not reloaded, and stay as they were: " + err.Error(),
		}.Send(w)
		return
	}
	problemjson.SendJSON(w, struct {
		Changes
		Running
	}{changes.withoutNil(), s.running(false)})
}

// withoutNil replaces nil lists by empty ones, so that clients need not handle null.
func (c Changes) withoutNil() Changes {
	for _, list := range []*[]string{&c.Added, &c.Removed, &c.Changed} {
		if *list == nil {
			*list = []string{}
		}
	}
	return c
}

// Restart is a field of the file that is not in force, because only a restart changes it.
type Restart struct {
	Field   string `json:"field"`
	InForce string `json:"in_force"` // without secrets
	File    string `json:"file"`
}

// inForce returns a file as it is in force after a reload: with the fields that only a restart changes as they were at the start, and a
// list of those that differ.
func (s *Server) inForce(file *config.File) (*config.File, []Restart) {
	kept := *file
	now, begun := &kept.Service, &s.opts.File.Service
	var needed []Restart
	add := func(field, inForce, inFile string) {
		if inForce == inFile {
			inFile += " (with other settings or secrets)"
		}
		needed = append(needed, Restart{field, inForce, inFile})
	}
	if cmp.Or(now.Store, memoryURL) != cmp.Or(begun.Store, memoryURL) {
		add("store", errtext.Redact(cmp.Or(begun.Store, memoryURL)), errtext.Redact(cmp.Or(now.Store, memoryURL)))
	}
	if is, was := cmp.Or(now.StoreTimeout, config.DefaultStoreTimeout), cmp.Or(begun.StoreTimeout, config.DefaultStoreTimeout); is != was {
		add("store_timeout", was.String(), is.String())
	}
	if now.Failure != begun.Failure && (s.envoy != nil || s.opts.RESP != "") {
		const others = " for Envoy and CL.THROTTLE"
		add("failure", cmp.Or(begun.Failure.String(), "not given,")+others, cmp.Or(now.Failure.String(), "not given")) // policies have the new one
	}
	if was := s.opts.File.Envoy; s.opts.Proxy == "" && !reflect.DeepEqual(was, file.Envoy) {
		add("envoy", envoyText(&was), envoyText(&file.Envoy))
		kept.Envoy = was
	}
	now.Store, now.StoreTimeout = begun.Store, begun.StoreTimeout
	return &kept, needed
}

// envoyText describes where rules for Envoy are, without secrets.
func envoyText(of *config.Envoy) string {
	places := slices.Clone(of.Files)
	if of.XDS.Address != "" {
		places = append(places, of.XDS.Address)
	}
	return cmp.Or(strings.Join(places, ", "), "none")
}

// restartFields returns the names of the fields, without their values.
func restartFields(needed []Restart) (names []string) {
	for _, r := range needed {
		names = append(names, r.Field)
	}
	return names
}

const memoryURL = "memory:"

// annotate adds to the text of a file in force what needs a restart.
func annotate(text string, needed []Restart) string {
	for _, r := range needed {
		lines := strings.SplitAfter(text, "\n")
		for i, line := range lines {
			if strings.HasPrefix(line, r.Field+":") {
				lines[i] = strings.TrimSuffix(line, "\n") + " # restart needed: in force is " + r.InForce + ", the file has " + r.File + "\n"
				break
			}
		}
		text = strings.Join(lines, "")
	}
	return text
}
