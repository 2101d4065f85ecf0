package redisstore

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/store"
)

// bind is adapter.Bind for a valid limit.
func bind(t testing.TB, namespace string, limit slidegate.Limit) *store.Limit {
	t.Helper()
	bound, err := adapter.Bind(namespace, limit)
	if err != nil {
		t.Fatal(err)
	}
	return bound
}

// nameOf returns the name of the key for a charge's state.
func nameOf(prefix string, limit *store.Limit, group, key string) string {
	return string(appendName(nil, limitPrefix(prefix, limit), group, key))
}

func TestNames(t *testing.T) {
	hour := slidegate.Limit{Quota: 1, Window: time.Hour, Algorithm: slidegate.SlidingWindow}
	login := slidegate.Limit{Name: "login", Quota: 1, Window: time.Minute, Algorithm: slidegate.SlidingWindow}
	for _, c := range []struct {
		prefix, namespace string
		limit             slidegate.Limit
		group, key, want  string
	}{
		{"slidegate", "api", login, "", "user-42", "slidegate:api:login:sliding-window-60000000-1-clock:{user-42}"},
		{"slidegate", "api", login, "acme", "user-42", "slidegate:api:login:sliding-window-60000000-1-clock:{acme}:user-42"},
		{"slidegate", "", hour, "", "", "slidegate:::sliding-window-3600000000-1-clock:{%}"},
		{"slidegate", "", hour, "g", "", "slidegate:::sliding-window-3600000000-1-clock:{g}:"},
		{"slidegate", "", hour, "g", "%settled-1-0", "slidegate:::sliding-window-3600000000-1-clock:{g}:%25settled-1-0"},
		{"x", "a:b", hour, "}", "{\n\x7f\xff%", "x:a%3Ab::sliding-window-3600000000-1-clock:{%7D}:%7B%0A%7F%FF%25"},
	} {
		if name := nameOf(c.prefix, bind(t, c.namespace, c.limit), c.group, c.key); name != c.want {
			t.Errorf("%+v: got the name %q", c, name)
		}
	}
}

// address has the parts of an address that could be confused.
type address struct{ namespace, limit, group, key string }

// letters are the characters of names, few enough for addresses to be similar.
var letters = []string{
	"a", "b", ":", "{", "}", "%", "%3A", "%7B", "}:", ":{", "%25", " ", "\x00", "\n", "\x7f", "\xff", "é", "-",
	"%settled-60000000-0", "settled-60000000-0",
}

// drawAddress returns a random address of few letters.
func drawAddress(random *rand.Rand, few []string) address {
	part := func() string {
		var text strings.Builder
		for range random.IntN(4) {
			text.WriteString(few[random.IntN(len(few))])
		}
		return text.String()
	}
	return address{part(), part(), part(), part()}
}

func (a address) name(t testing.TB) string {
	return nameOf("slidegate", bind(t, a.namespace, slidegate.Limit{Name: a.limit, Quota: 1, Window: time.Hour}), a.group, a.key)
}

// Different addresses have different names, of bytes that every terminal shows, and a group's names are in one slot.
func TestNamesAreApart(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	seen := map[string]address{}
	var few []string
	for i := range 20_000 {
		if i%100 == 0 {
			few = []string{letters[random.IntN(len(letters))], letters[random.IntN(len(letters))]}
		}
		a := drawAddress(random, few)
		name := a.name(t)
		if before, ok := seen[name]; ok && before != a {
			t.Fatalf("%q and %q both have the name %q", before, a, name)
		}
		seen[name] = a
		for generation := range 2 {
			settled := string(appendSettledName(nil, name, generation))
			if before, ok := seen[settled]; ok && before != (address{"settled", name, "", ""}) {
				t.Fatalf("%q has the name %q, which is that of settlements of %q", before, settled, a)
			}
			seen[settled] = address{"settled", name, "", ""}
			if slot(settled) != slot(name) {
				t.Fatalf("%q and %q are in different slots", name, settled)
			}
		}
		if i := strings.IndexFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }); i >= 0 {
			t.Fatalf("%q has the name %q, with a byte that terminals do not show", a, name)
		}
		other := drawAddress(random, letters)
		other.group = a.group
		if a.group == "" {
			other.key = a.key
		}
		if slot(name) != slot(other.name(t)) {
			t.Fatalf("%q and %q are in different slots", name, other.name(t))
		}
	}
	t.Logf("%d different names", len(seen))
}

// The shape is part of the name, and what is not part of the shape is not.
func TestNamesOfShapes(t *testing.T) {
	base := slidegate.Limit{Name: "n", Quota: 10, Window: time.Hour, Algorithm: slidegate.SlidingWindow}
	name := func(change func(*slidegate.Limit)) string {
		l := base
		change(&l)
		return nameOf("slidegate", bind(t, "", l), "", "key")
	}
	own := name(func(*slidegate.Limit) {})
	for i, same := range []func(*slidegate.Limit){
		func(l *slidegate.Limit) { l.Quota = 11 },
		func(l *slidegate.Limit) { l.Overlap = slidegate.OverlapWhole },
		func(l *slidegate.Limit) { l.CountRefused = true },
	} {
		if name(same) != own {
			t.Errorf("change %d outside of the shape changed the name to %s", i, name(same))
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
			t.Errorf("change %d of the shape left the name %s", i, name(other))
		}
		seen[name(other)] = true
	}
}

// testdata/names.txt has groups, keys, their names, and the slots of these names. A test in another module compares the
// file with a server.
func TestSlotsAndNamesOfServer(t *testing.T) {
	recorded, err := os.ReadFile("testdata/names.txt")
	if err != nil {
		t.Fatal(err)
	}
	limit := bind(t, "api", slidegate.Limit{Name: "login", Quota: 1, Window: time.Hour, Algorithm: slidegate.SlidingWindow})
	lines := strings.Split(strings.TrimSpace(string(recorded)), "\n")
	for _, line := range lines {
		var group, key, want string
		var wantSlot uint16
		if _, err := fmt.Sscanf(line, "%q %q %q %d", &group, &key, &want, &wantSlot); err != nil {
			t.Fatalf("invalid line %s: %v", line, err)
		}
		if name := nameOf("own", limit, group, key); name != want || slot(name) != wantSlot {
			t.Errorf("%s: got the name %q and slot %d", line, name, slot(name))
		}
	}
}
