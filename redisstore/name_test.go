package redisstore

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/redistest"
	"pgregory.net/rapid"
)

func TestNames(t *testing.T) {
	hour := slidegate.Limit{Quota: 1, Window: time.Hour}
	login := slidegate.Limit{Name: "login", Quota: 1, Window: time.Minute}
	for _, c := range []struct {
		prefix, namespace string
		limit             slidegate.Limit
		group, key, want  string
	}{
		{"slidegate", "api", login, "", "user-42", "slidegate:api:login:sliding-window-60000000-1-clock:{user-42}"},
		{"slidegate", "api", login, "acme", "user-42", "slidegate:api:login:sliding-window-60000000-1-clock:{acme}:user-42"},
		{"slidegate", "", hour, "", "", "slidegate:::sliding-window-3600000000-1-clock:{%}"},
		{"slidegate", "", hour, "g", "", "slidegate:::sliding-window-3600000000-1-clock:{g}:"},
		{"x", "a:b", hour, "}", "{\n\x7f\xff%", "x:a%3Ab::sliding-window-3600000000-1-clock:{%7D}:%7B%0A%7F%FF%25"},
	} {
		if name := nameOf(c.prefix, bind(t, c.namespace, c.limit), c.group, c.key); name != c.want {
			t.Errorf("%+v is kept under %q", c, name)
		}
	}
}

// address is what a state belongs to, as far as it can be confused.
type address struct{ namespace, limit, group, key string }

func drawAddress(t *rapid.T, label string) address {
	// Few letters, and those that names are made of, so that addresses come close to one another.
	part := func(what string) string {
		letters := []string{
			"a", "b", ":", "{", "}", "%", "%3A", "%7B", "}:", ":{", "%25", " ", "\x00", "\n", "\x7f", "\xff", "é", "-",
		}
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(letters), 0, 4).Draw(t, label+" "+what), "")
	}
	return address{part("namespace"), part("limit"), part("group"), part("key")}
}

func (a address) name(t testing.TB) string {
	return nameOf("slidegate", bind(t, a.namespace, slidegate.Limit{Name: a.limit, Quota: 1, Window: time.Hour}), a.group, a.key)
}

// Different addresses have different names, of bytes that every terminal shows, and a group's names lie in one slot.
func TestNamesAreApart(t *testing.T) {
	seen := map[string]address{}
	rapid.Check(t, func(rt *rapid.T) {
		for range 30 {
			a := drawAddress(rt, "address")
			name := a.name(t)
			if before, ok := seen[name]; ok && before != a {
				rt.Fatalf("%q and %q are both kept under %q", before, a, name)
			}
			seen[name] = a
			if i := strings.IndexFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }); i >= 0 {
				rt.Fatalf("%q is kept under %q, which has a byte that terminals do not show", a, name)
			}
			other := drawAddress(rt, "other")
			other.group = a.group
			if a.group == "" {
				other.key = a.key
			}
			if slot(name) != slot(other.name(t)) {
				rt.Fatalf("%q and %q lie in different slots", name, other.name(t))
			}
		}
	})
	t.Logf("%d different names", len(seen))
}

// The shape is part of the name, and what is not part of the shape is not.
func TestNamesOfShapes(t *testing.T) {
	base := slidegate.Limit{Name: "n", Quota: 10, Window: time.Hour}
	name := func(change func(*slidegate.Limit)) string {
		l := base
		change(&l)
		return nameOf("slidegate", bind(t, "", l), "", "key")
	}
	own := name(func(*slidegate.Limit) {})
	for i, same := range []func(*slidegate.Limit){
		func(l *slidegate.Limit) { l.Quota = 11 },
		func(l *slidegate.Limit) { l.Overlap = slidegate.OverlapWhole },
		func(l *slidegate.Limit) { l.CountDenied = true },
	} {
		if name(same) != own {
			t.Errorf("change %d of what is not in the shape: %s", i, name(same))
		}
	}
	seen := map[string]bool{own: true}
	for i, other := range []func(*slidegate.Limit){
		func(l *slidegate.Limit) { l.Window = 2 * time.Hour },
		func(l *slidegate.Limit) { l.Segments = 2 },
		func(l *slidegate.Limit) { l.Anchor = slidegate.AnchorFirst },
		func(l *slidegate.Limit) { l.Algorithm = slidegate.FixedWindow },
		func(l *slidegate.Limit) { l.Algorithm = slidegate.SlidingLog },
		func(l *slidegate.Limit) { l.Algorithm = slidegate.TokenBucket },
	} {
		if seen[name(other)] {
			t.Errorf("change %d of the shape leaves the name %s", i, name(other))
		}
		seen[name(other)] = true
	}
}

// The slot is the one that the server computes, and names on the server are the ones of this package.
func TestSlotsAndNamesOnServer(t *testing.T) {
	t.Parallel()
	nodes := redistest.Cluster(t)
	client, node := nodes.Client(t), nodes[0].Options()
	node.ForceSingleClient = true
	single := redistest.Client(t, node)
	s := newStore(t, client, Options{Prefix: "own"})
	limit := bind(t, "api", slidegate.Limit{Name: "login", Quota: 1, Window: time.Hour})
	for _, a := range [][2]string{
		{"", "a"}, {"", ""}, {"", "{}"}, {"g", "a"}, {"{g}", "}a"}, {"", "user:12345"}, {"\x00", "\xff"},
	} {
		name := nameOf("own", limit, a[0], a[1])
		if want := number(t, single, "CLUSTER", "KEYSLOT", name); int64(slot(name)) != want {
			t.Errorf("the slot of %q is %d, not %d", name, want, slot(name))
		}
		request := store.Request{
			Group: a[0], Charges: []store.Charge{{Limit: limit, Key: a[1], Cost: 1}}, Answers: make([]rule.Answer, 1),
		}
		if err := s.Apply(context.Background(), []store.Request{request}); err != nil {
			t.Fatal(err)
		}
		found := client.Do(context.Background(), client.B().Exists().Key(name).Build())
		if n, err := found.AsInt64(); n != 1 || err != nil {
			t.Errorf("there is no key %q: %v", name, err)
		}
	}
}
