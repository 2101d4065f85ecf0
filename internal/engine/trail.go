package engine

import (
	"context"
	"log/slog"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// A middleware inside another that charges the same limit of the same store for the same key charges one request twice, and
// the client gets half of its quota for no visible reason. To detect that, a middleware leaves a trail in the request's
// context: what it has charged. A trail takes memory and time, so it is made only where it is useful: where several Sets of
// this process have limits of the same name in the same store.

// sharer is the part of a Set that the register of names refers to. It does not refer to the Set.
type sharer struct {
	shared atomic.Bool // other Sets have limits of the same names, or seem to
	seen   atomic.Bool // header fields showed one middleware around another
	names  []nameID

	unnamed map[string]string // the limits without a name, by what addresses their counts
}

// nameID identifies the limits of one policy in a store.
type nameID struct {
	store     uintptr // only its address, so that the register keeps no store alive
	namespace string
	name      string // the first part of the limits' names
}

// register records which Sets have limits of the same names. It is global, because two middlewares need not know each
// other.
var register = struct {
	mu sync.Mutex
	by map[nameID]map[*sharer]struct{}
}{by: map[nameID]map[*sharer]struct{}{}}

// addToRegister adds the names of a Set to the register for as long as the Set is in use.
func (s *Set) addToRegister() {
	if s.bottom = baseOf(s.store); s.limiter == nil || s.bottom == nil || reflect.TypeOf(s.bottom).Kind() != reflect.Pointer {
		return
	}
	address := reflect.ValueOf(s.bottom).Pointer()
	known := map[nameID]bool{} // a policy may have thousands of overrides, whose limits all begin with its name
	for _, p := range s.policies {
		for _, bound := range s.BoundLimits(p.index) {
			name, _, _ := strings.Cut(bound.Name(), "/")
			if id := (nameID{address, bound.Namespace(), name}); !known[id] {
				known[id] = true
				s.sharer.names = append(s.sharer.names, id)
			}
			if bound.Name() == "" {
				s.sharer.addUnnamed(bound)
			}
		}
	}
	register.mu.Lock()
	defer register.mu.Unlock()
	s.sharer.warnUnnamedLocked()
	for _, id := range s.sharer.names {
		if register.by[id] == nil {
			register.by[id] = map[*sharer]struct{}{}
		}
		register.by[id][s.sharer] = struct{}{}
	}
	s.sharer.refreshAllLocked()
	runtime.AddCleanup(s, removeFromRegister, s.sharer)
}

func (h *sharer) addUnnamed(bound *store.Limit) {
	if h.unnamed == nil {
		h.unnamed = map[string]string{}
	}
	h.unnamed[bound.Prefix()] = bound.Label()
}

// warnUnnamedLocked logs a limit without a name that a Set already has on the same store. Two limits without a name are hardly
// meant to count together: five logins a minute would use up the five registrations.
func (h *sharer) warnUnnamedLocked() {
	for _, id := range h.names {
		for other := range register.by[id] {
			for prefix, label := range h.unnamed {
				if _, both := other.unnamed[prefix]; both && id.name == "" {
					slog.Warn("slidegate: two middlewares on one store have the same limit without a name, so they share its counts; "+
						"name their policies to count separately, or the limit if this is meant", slog.String("limit", label))
					return
				}
			}
		}
	}
}

// removeFromRegister removes a Set's names from the register.
func removeFromRegister(gone *sharer) {
	register.mu.Lock()
	defer register.mu.Unlock()
	for _, id := range gone.names {
		delete(register.by[id], gone)
	}
	gone.refreshAllLocked()
	for _, id := range gone.names {
		if len(register.by[id]) == 0 {
			delete(register.by, id)
		}
	}
}

// refreshAllLocked updates, for all Sets with names of h, whether they share any.
func (h *sharer) refreshAllLocked() {
	refreshed := map[*sharer]bool{}
	for _, id := range h.names {
		for other := range register.by[id] {
			if refreshed[other] {
				continue
			}
			refreshed[other] = true
			shared := other.seen.Load()
			for _, id := range other.names {
				shared = shared || len(register.by[id]) > 1
			}
			other.shared.Store(shared)
		}
	}
}

// baseOf returns the store below all layers.
func baseOf(st store.Store) store.Store {
	for {
		wrapper, wraps := st.(store.Wrapper)
		if !wraps {
			return st
		}
		st = wrapper.Unwrap()
	}
}

// Shared reports whether another Set may charge the same limits as this one, so that requests need a trail; see Follow.
func (s *Set) Shared() bool { return s.sharer.shared.Load() }

// MarkNested makes Shared true: for a middleware that finds what looks like its own header fields in a response that it has
// not answered yet, or that is installed twice.
func (s *Set) MarkNested() {
	s.sharer.seen.Store(true)
	s.sharer.shared.Store(true)
}

// trail is what a request has been charged on its way through middlewares. It is a context.
type trail struct {
	context.Context
	set     *Set
	group   string
	charged []trace
	outer   *trail
}

// trace is what one policy charged.
type trace struct {
	policy *compiledPolicy
	bound  []*store.Limit
	key    string
	twice  bool // it was charged before by another middleware
}

type trailKey struct{}

// Value returns the trail itself for its own key.
func (t *trail) Value(key any) any {
	if key == (trailKey{}) {
		return t
	}
	return t.Context.Value(key)
}

// Trace sets v.ChargedTwice if a middleware around this one has already charged a limit that decided v for the same key.
// It returns ctx with what the request has been charged so far, for the middlewares inside. It also logs the first time
// that it finds one middleware inside another. Call it where Shared is true, with the decided parts and group.
func (s *Set) Trace(ctx context.Context, group string, v *policy.Decision, parts ...Part) context.Context {
	next := s.follow(ctx, group, parts)
	v.ChargedTwice = next.chargedTwice("")
	return next.after(ctx, v)
}

// Trace is Set.Trace for the decided request. It also marks the decisions of Trials.
func (t *Transaction) Trace(ctx context.Context, v *policy.Decision) context.Context {
	next := t.set.follow(ctx, t.Group, t.given)
	v.ChargedTwice = next.chargedTwice("")
	for i := range t.decided {
		t.decided[i].ChargedTwice = next.chargedTwice(t.decided[i].Policy)
	}
	for i := range t.tried {
		t.tried[i].ChargedTwice = next.chargedTwice(t.tried[i].Policy)
	}
	return next.after(ctx, v)
}

// follow returns the trail of what parts charge.
func (s *Set) follow(ctx context.Context, group string, parts []Part) *trail {
	next := &trail{Context: ctx, set: s, group: group}
	next.outer, _ = ctx.Value(trailKey{}).(*trail)
	for i := range parts {
		p := s.policies[parts[i].Policy]
		r, by, err := p.route(rule.Take, &parts[i])
		if err == nil && by == policy.ByLimits && !parts[i].peeks() {
			next.charged = append(next.charged, trace{policy: p, bound: r.bound, key: parts[i].Key})
		}
	}
	for before := next.outer; before != nil; before = before.outer {
		if before.group == group && sameStore(before.set.bottom, s.bottom) {
			next.findCommon(before)
		}
	}
	return next
}

// after returns the context for the middlewares inside: the trail, if anything was charged.
func (t *trail) after(ctx context.Context, v *policy.Decision) context.Context {
	if v.Refused || failed(v) || len(t.charged) == 0 {
		return ctx
	}
	return t
}

// chargedTwice reports whether a policy, or any policy if name is empty, charges what was charged before.
func (t *trail) chargedTwice(name string) bool {
	return slices.ContainsFunc(t.charged, func(own trace) bool { return own.twice && (name == "" || own.policy.name == name) })
}

// findCommon finds what two middlewares charge to the same limit for the same key, and logs it once.
func (t *trail) findCommon(before *trail) {
	for i := range t.charged {
		for j := range before.charged {
			own, other := &t.charged[i], &before.charged[j]
			if limit := commonLimit(own, other); limit != nil {
				own.twice = true
				t.set.warn(before.set, own, other, limit)
			}
		}
	}
}

// commonLimit returns a limit that both charge, or nil.
func commonLimit(a, b *trace) *store.Limit {
	if a.key != b.key {
		return nil
	}
	for _, one := range a.bound {
		for _, other := range b.bound {
			if one.Prefix() == other.Prefix() {
				return one
			}
		}
	}
	return nil
}

// warn logs once per outer Set that one middleware charges what another around it has charged.
func (s *Set) warn(outer *Set, own, other *trace, limit *store.Limit) {
	if _, known := s.warned.LoadOrStore(outer.sharer, true); known {
		return
	}
	slog.Warn("slidegate: one request is charged twice to the same limit, by a middleware and by one around it; "+
		"name the limits or the policies differently, or remove one of the two",
		slog.String("limit", limit.Label()), slog.String("policy", own.policy.name), slog.String("outer_policy", other.policy.name))
}
