package pgstore

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/rule"
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

func addressOf(t testing.TB, namespace string, limit slidegate.Limit, group, key string) string {
	return string(appendAddress(nil, limitPrefix(bind(t, namespace, limit)), group, key))
}

func TestAddresses(t *testing.T) {
	hour := slidegate.Limit{Quota: 1, Window: time.Hour, Algorithm: slidegate.SlidingWindow}
	login := slidegate.Limit{Name: "login", Quota: 1, Window: time.Minute, Algorithm: slidegate.SlidingWindow}
	for _, c := range []struct {
		namespace        string
		limit            slidegate.Limit
		group, key, want string
	}{
		{"api", login, "", "user-42", "api:login:sliding-window-60000000-1-clock::user-42"},
		{"api", login, "acme", "user-42", "api:login:sliding-window-60000000-1-clock:acme:user-42"},
		{"", hour, "", "", "::sliding-window-3600000000-1-clock::"},
		{"a:b", hour, "%", "\"\\\n\x7f\xff{,}'", "a%3Ab::sliding-window-3600000000-1-clock:%25:%22%5C%0A%7F%FF{,}'"},
		// The maximum is 512 bytes: 37 before the key, and the SHA-256 of longer addresses.
		{"", hour, "", strings.Repeat("k", 475), "::sliding-window-3600000000-1-clock::" + strings.Repeat("k", 475)},
		{"", hour, "", strings.Repeat("k", 476), "%sha256:" + shaOf476},
	} {
		if is := addressOf(t, c.namespace, c.limit, c.group, c.key); is != c.want {
			t.Errorf("%q %q: got address %q", c.group, c.key, is)
		}
	}
}

// shaOf476 is the SHA-256 of the prefix and 476 times k.
const shaOf476 = "e4079f4aaca50a45befd0258b5d39c93278d9d8d5ba46df6e93216a552f87314"

// owner has the parts of an address that could be confused.
type owner struct{ namespace, limit, group, key string }

// letters are the characters of addresses, few enough for them to be similar.
var letters = []string{"a", "b", ":", "::", "%", "%3A", "%25", "%sha256:", "%settled:", " ", "\x00", "\n", "\x7f", "\xff", "é", "-", "\"", "\\"}

// drawOwner returns a random owner of few letters.
func drawOwner(random *rand.Rand, few []string) owner {
	draw := func() string {
		var text strings.Builder
		for range random.IntN(4) {
			text.WriteString(few[random.IntN(len(few))])
		}
		if random.IntN(20) == 0 {
			return strings.Repeat(text.String(), 120)
		}
		return text.String()
	}
	return owner{draw(), draw(), draw(), draw()}
}

// Different owners have different addresses, short ones of bytes that every terminal shows and no array needs to
// escape.
func TestAddressesAreApart(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	seen := map[string]owner{}
	var few []string
	for i := range 20_000 {
		if i%100 == 0 {
			few = []string{letters[random.IntN(len(letters))], letters[random.IntN(len(letters))]}
		}
		o := drawOwner(random, few)
		a := addressOf(t, o.namespace, slidegate.Limit{Name: o.limit, Quota: 1, Window: time.Hour}, o.group, o.key)
		if before, ok := seen[a]; ok && before != o {
			t.Fatalf("%q and %q both have the address %q", before, o, a)
		}
		seen[a] = o
		if strings.HasPrefix(a, "%settled:") {
			t.Fatalf("%q has the address of a settlement, %q", o, a)
		}
		if len(a) > maxAddress || strings.ContainsFunc(a, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
			t.Fatalf("%q has the address %q", o, a)
		}
	}
	t.Logf("%d different addresses", len(seen))
}

// The shape is part of the address, and what is not part of the shape is not.
func TestAddressesOfShapes(t *testing.T) {
	base := slidegate.Limit{Name: "n", Quota: 10, Window: time.Hour, Algorithm: slidegate.SlidingWindow}
	own := addressOf(t, "", base, "", "key")
	for i, c := range []struct {
		change func(*slidegate.Limit)
		same   bool
	}{
		{func(l *slidegate.Limit) { l.Quota = 11 }, true},
		{func(l *slidegate.Limit) { l.Overlap = slidegate.OverlapWhole }, true},
		{func(l *slidegate.Limit) { l.CountRefused = true }, true},
		{func(l *slidegate.Limit) { l.Window = 2 * time.Hour }, false},
		{func(l *slidegate.Limit) { l.Segments = 2 }, false},
		{func(l *slidegate.Limit) { l.Anchor = slidegate.AnchorFirst }, false},
		{func(l *slidegate.Limit) { l.Algorithm = slidegate.FixedWindow }, false},
		{func(l *slidegate.Limit) { l.Algorithm = slidegate.SlidingLog }, false},
		{func(l *slidegate.Limit) { l.Algorithm = slidegate.TokenBucket }, false},
		{func(l *slidegate.Limit) { l.Algorithm = rule.InFlight }, false},
	} {
		l := base
		c.change(&l)
		if same := addressOf(t, "", l, "", "key") == own; same != c.same {
			t.Errorf("change %d: got the same address %v", i, same)
		}
	}
}
