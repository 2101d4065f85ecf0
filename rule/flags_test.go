package rule

import (
	"testing"
)

// Every flag has its own method and name.
func TestFlagsOneByOne(t *testing.T) {
	for i, c := range []struct {
		flag Flags
		name string
	}{
		{Inherited, "inherited"}, {ClockMoved, "clock-moved"}, {Cached, "cached"}, {FallbackOpen, "fallback-open"},
		{FallbackClosed, "fallback-closed"}, {FallbackLocal, "fallback-local"}, {Repeated, "repeated"},
		{Unsettled, "unsettled"}, {Leased, "leased"}, {Held, "held"}, {HoldsFull, "holds-full"},
		{NotOnce, "not-once"}, {NotDurable, "not-durable"},
	} {
		if c.flag != 1<<i {
			t.Errorf("%s: got flag %d, want flag %d", c.name, c.flag, 1<<i)
		}
		if c.flag.String() != c.name {
			t.Errorf("%s: got the name %s", c.name, c.flag)
		}
	}
}

func TestFlagsAsText(t *testing.T) {
	for flags, want := range map[Flags]string{
		0: "none", Cached | FallbackLocal: "cached|fallback-local", Inherited | ClockMoved | Cached: "inherited|clock-moved|cached",
		Cached | 1<<14: "cached|unknown(16384)", Repeated | Unsettled: "repeated|unsettled",
	} {
		if got := flags.String(); got != want {
			t.Errorf("%d: %q, want %q", uint16(flags), got, want)
		}
	}
}
