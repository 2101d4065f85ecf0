package server

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/config/errtext"
	"github.com/slidegate/slidegate/policy"
)

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
			inFile += " (with another secret)"
		}
		needed = append(needed, Restart{field, inForce, inFile})
	}
	if cmp.Or(now.Store, memoryURL) != cmp.Or(begun.Store, memoryURL) {
		add("store", errtext.Redact(cmp.Or(begun.Store, memoryURL)), errtext.Redact(cmp.Or(now.Store, memoryURL)))
	}
	if is, was := cmp.Or(now.StoreTimeout, config.DefaultStoreTimeout), cmp.Or(begun.StoreTimeout, config.DefaultStoreTimeout); is != was {
		add("store_timeout", was.String(), is.String())
	}
	if is, was := cmp.Or(now.Optimism, policy.DefaultOptimism), cmp.Or(begun.Optimism, policy.DefaultOptimism); is != was {
		add("optimism", strconv.FormatInt(was, 10), strconv.FormatInt(is, 10))
	}
	if now.Failure != begun.Failure && (s.envoy != nil || s.opts.RESP != "") {
		const others = " for Envoy and CL.THROTTLE"
		add("failure", cmp.Or(begun.Failure, "not given,")+others, cmp.Or(now.Failure, "not given")) // policies have the new one
	}
	now.Store, now.StoreTimeout, now.Optimism = begun.Store, begun.StoreTimeout, begun.Optimism
	return &kept, needed
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
