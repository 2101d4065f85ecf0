package rule

import (
	"encoding/json"
	"strings"
	"testing"
)

// Every flag has its own method and name.
func TestFlagsOneByOne(t *testing.T) {
	for want, c := range []struct {
		flag Flags
		is   func(Flags) bool
		name string
	}{
		{Inherited, Flags.Inherited, "inherited"}, {ClockMoved, Flags.ClockMoved, "clock-moved"}, {Cached, Flags.Cached, "cached"},
		{FallbackOpen, Flags.FallbackOpen, "fallback-open"}, {FallbackClosed, Flags.FallbackClosed, "fallback-closed"},
		{FallbackLocal, Flags.FallbackLocal, "fallback-local"}, {Repeated, Flags.Repeated, "repeated"},
		{Unsettled, Flags.Unsettled, "unsettled"}, {Leased, Flags.Leased, "leased"},
		{FallbackOptimistic, Flags.FallbackOptimistic, "fallback-optimistic"},
	} {
		for i := range 16 {
			if c.is(1<<i) != (i == want) {
				t.Errorf("%s: got %v for flag %d", c.name, c.is(1<<i), i)
			}
		}
		if c.flag.String() != c.name || c.flag.Fallback() != strings.HasPrefix(c.name, "fallback") {
			t.Errorf("%s: got the name %s, fallback %v", c.name, c.flag, c.flag.Fallback())
		}
	}
}

func TestFlagsAsText(t *testing.T) {
	for flags, want := range map[Flags]string{
		0: "none", Cached | FallbackLocal: "cached|fallback-local", Inherited | ClockMoved | Cached: "inherited|clock-moved|cached",
		Cached | 1<<10: "cached|unknown(1024)", Repeated | Unsettled: "repeated|unsettled",
	} {
		if got := flags.String(); got != want {
			t.Errorf("%d: %q, want %q", uint16(flags), got, want)
		}
	}
}

// Flags survive JSON, and unknown flags are rejected.
func TestFlagsThroughJSON(t *testing.T) {
	for want := range Flags(1 << len(flagNames)) {
		text, err := json.Marshal(Answer{Flags: want})
		var got Answer
		if err == nil {
			err = json.Unmarshal(text, &got)
		}
		if err != nil || got.Flags != want {
			t.Errorf("%s: got %v, %v, want %v", text, got.Flags, err, want)
		}
	}
	flags := Cached
	if err := flags.UnmarshalText([]byte("cached|late")); err == nil || flags != Cached || !strings.Contains(err.Error(), `"late"`) {
		t.Errorf("got %v, %v", flags, err)
	}
	if err := flags.UnmarshalText(nil); err != nil || flags != 0 {
		t.Errorf("an empty text: got %v, %v", flags, err)
	}
}
