package gate

import (
	"errors"
	"fmt"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/store"
)

// snapshot is all that one file says, made ready. It does not change: an ask takes one and keeps to it.
type snapshot struct {
	file     *config.File
	policies map[string]*policy
	order    []*policy
	names    []string
	standard *policy // for asks that name none; nil if they must
	source   *clientip.Source
	memory   memory
}

// memory is what a snapshot hands to the next one, so that a limit which is in both stays the same to the stores: they
// remember things about limits by their ID.
type memory struct {
	limiters map[limiterID]*slidegate.Limiter
	bound    map[boundID]*store.Limit
}

type limiterID struct {
	namespace string
	mode      int
}

type boundID struct {
	namespace string
	limit     slidegate.Limit
}

// The failure modes, in the order of modeNames; the strictest last, which goes first where policies disagree.
const (
	failOpen = iota
	failLocal
	failClosed
	modes
)

var modeNames = [modes]string{config.FailOpen, config.FailLocal, config.FailClosed}

// builder makes a snapshot.
type builder struct {
	gate *Gate
	last memory
	made *snapshot
}

func (g *Gate) build(file *config.File, last memory) (*snapshot, error) {
	if file == nil {
		return nil, invalid("file", "must not be nil; config.Load reads one")
	}
	b := &builder{gate: g, last: last, made: &snapshot{
		file: file, policies: map[string]*policy{}, source: g.opts.Source,
		memory: memory{limiters: map[limiterID]*slidegate.Limiter{}, bound: map[boundID]*store.Limit{}},
	}}
	for i := range file.Policies {
		given := &file.Policies[i]
		if b.made.policies[given.Name] != nil {
			return nil, inPolicy(given.Name, invalid("name", "is there twice; give each policy its own"))
		}
		p, err := b.policy(given)
		if err != nil {
			return nil, inPolicy(given.Name, err)
		}
		b.made.policies[p.Name] = p
		b.made.order = append(b.made.order, p)
		b.made.names = append(b.made.names, p.Name)
	}
	return b.made, b.finish()
}

// finish works out what is about all policies together.
func (b *builder) finish() (err error) {
	s, service := b.made, &b.made.file.Service
	if len(s.order) == 0 {
		return invalid("policies", "there are no policies; give at least one")
	}
	s.standard = s.policies["default"]
	if len(s.order) == 1 {
		s.standard = s.order[0]
	}
	if service.Default != "" {
		if s.standard = s.policies[service.Default]; s.standard == nil {
			return invalid("default_policy", "%w", s.unknown(service.Default))
		}
	}
	if s.source == nil && len(service.TrustedProxies) > 0 {
		s.source, err = clientip.New(clientip.Options{Trusted: service.TrustedProxies, Header: "X-Forwarded-For"})
		if err != nil {
			return invalid("trusted_proxies", "%w", err)
		}
	}
	return nil
}

// find returns the policy of that name, or the one for asks that name none.
func (s *snapshot) find(name string) (*policy, error) {
	if name == "" && s.standard != nil {
		return s.standard, nil
	}
	if p := s.policies[name]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("gate: %w", s.unknown(name))
}

// unknown is the error about a name that no policy has.
func (s *snapshot) unknown(name string) error {
	_, err := s.file.Policy(name)
	var why *config.OptionError
	if errors.As(err, &why) {
		err = why.Err
	}
	return fmt.Errorf("%w: %w", ErrPolicy, err)
}

// invalid returns the error of a field of the file.
func invalid(option, format string, args ...any) error {
	return &config.OptionError{Package: "gate", Option: option, Err: fmt.Errorf(format, args...)}
}

// inPolicy returns err as the error of a policy. An error that names no field is about the policy's limits.
func inPolicy(name string, err error) error {
	var wrong *config.OptionError
	if !errors.As(err, &wrong) {
		wrong = &config.OptionError{Package: "gate", Option: "limits", Err: err}
	}
	wrong.Within = fmt.Sprintf("policy %q", name)
	return wrong
}
