package storetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Bugs in the address that state belongs to.

func keyBugs() []bug {
	rekeying := func(name string, rekey func(key string) string) bug {
		return bug{name, "keys", misaddressing(func(_ *string, c *store.Charge) { c.Key = rekey(c.Key) })}
	}
	joining := func(name, separator string) bug {
		return bug{name, "keys", misaddressing(func(group *string, c *store.Charge) {
			*group, c.Key = "", *group+separator+c.Key
		})}
	}
	return []bug{
		rekeying("ends keys at a NUL", func(key string) string { return strings.SplitN(key, "\x00", 2)[0] }),
		rekeying("folds the case of keys", strings.ToLower),
		rekeying("repairs keys that are not UTF-8", func(key string) string { return strings.ToValidUTF8(key, "\ufffd") }),
		rekeying("trims keys", strings.TrimSpace),
		rekeying("uses the hash tag only", func(key string) string {
			if start := strings.IndexByte(key, '{'); start >= 0 {
				if end := strings.IndexByte(key[start+1:], '}'); end > 0 {
					return key[start+1:][:end]
				}
			}
			return key
		}),
		rekeying("cuts keys at 64 KiB", func(key string) string { return key[:min(len(key), 1<<16)] }),
		rekeying("cuts keys at 255 bytes", func(key string) string { return key[:min(len(key), 255)] }),
		rekeying("composes accents", strings.NewReplacer("e\u0301", "\u00e9").Replace),
		joining("joins group and key without a separator", ""),
		joining("joins group and key with a colon", ":"),
		joining("joins group and key with a NUL", "\x00"),
		{"ignores the group", "keys", misaddressing(func(group *string, _ *store.Charge) { *group = "" })},
		{"joins namespace and name with a colon", "keys", rebinding(func(namespace string, l *slidegate.Limit) string {
			l.Name = namespace + ":" + l.Name
			return ""
		})},
		{"ignores the name", "keys", rebinding(func(namespace string, l *slidegate.Limit) string {
			l.Name = ""
			return namespace
		})},
	}
}

// rebinding opens stores that bind limits to another address than their own.
func rebinding(rebind func(namespace string, l *slidegate.Limit) string) Open {
	return misaddressing(func(_ *string, c *store.Charge) {
		limit := adapter.Unbind(c.Limit)
		namespace := rebind(c.Limit.Namespace(), &limit)
		bound, err := adapter.Bind(namespace, limit)
		if err != nil {
			panic(err)
		}
		c.Limit = bound
	})
}

func stateBugs() []bug {
	owning := func(name string, owner func(l *rule.Limit) string) bug {
		return bug{name, "state", misaddressing(func(_ *string, c *store.Charge) { c.Key += owner(c.Limit.Rule()) })}
	}
	return []bug{
		owning("loses counts when the quota changes", func(l *rule.Limit) string { return fmt.Sprint("#", l.Quota) }),
		owning("loses counts when the overlap changes", func(l *rule.Limit) string { return fmt.Sprint("#", l.Overlap) }),
		owning("loses counts when the burst changes", func(l *rule.Limit) string { return fmt.Sprint("#", l.Burst) }),
		owning("loses counts when refusals begin to count", func(l *rule.Limit) string {
			return fmt.Sprint("#", l.CountRefused)
		}),
		{"shares state between different anchors", "state", deciding(sharingAnchors)},
	}
}

// sharingAnchors copies the state from the limit with the other anchor, and back.
func sharingAnchors(r *Reference, request *store.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	charge := request.Charges[0]
	limit := adapter.Unbind(charge.Limit)
	own := address(charge.Limit.Prefix(), request.Group, charge.Key)
	other := own
	if charge.Limit.Rule().Parts() > 0 {
		limit.Anchor = slidegate.AnchorFirst - limit.Anchor
		bound, err := adapter.Bind(charge.Limit.Namespace(), limit)
		if err != nil {
			panic(err)
		}
		other = address(bound.Prefix(), request.Group, charge.Key)
	}
	if state, there := r.states[other]; there {
		r.states[own] = state
	}
	r.decideLocked(request, r.clock.Now())
	r.states[other] = r.states[own]
}

// forgetful and strict make mistakes with the limits that limiters declare.
type (
	forgetful struct{ *Reference }
	strict    struct {
		*Reference
		known map[string]*store.Limit
	}
)

func (forgetful) Declare(...*store.Limit) error { return nil }

func (s strict) Declare(limits ...*store.Limit) error {
	for _, limit := range limits {
		if earlier := s.known[limit.Prefix()]; earlier != nil && *earlier.Rule() != *limit.Rule() {
			return store.ErrConflict
		}
		s.known[limit.Prefix()] = limit
	}
	return nil
}

func declareBugs() []bug {
	return []bug{
		{"forgets the limits of its limiters", "declare", func(_ testing.TB, clock *Clock) store.Store {
			return forgetful{NewReference(clock)}
		}},
		{"rejects a new quota for a name", "declare", func(_ testing.TB, clock *Clock) store.Store {
			return strict{NewReference(clock), map[string]*store.Limit{}}
		}},
	}
}
