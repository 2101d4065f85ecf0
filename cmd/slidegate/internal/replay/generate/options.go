package generate

import (
	"fmt"
	"time"

	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/rule"
)

// Options configures the traffic. The zero value is valid: every zero field has the default documented with it.
type Options struct {
	// Shape is the kind of traffic; Mixed by default.
	Shape Shape
	// Seed selects one of many similar traffics; 1 by default. The same seed and options give the same requests.
	Seed uint64
	// Requests is the exact number of requests, up to 100,000,000,000; 100,000 by default.
	Requests int64
	// Keys is the number of users, user-0001 and so on, up to 1,000,000,000; 1,000 by default. Some users may send
	// nothing. The keys of scrapers, bots and edge bursters come in addition, and there are never more edge bursters than
	// users.
	Keys int
	// Bots is the number of keys of a botnet, up to 1,000,000,000. They take turns, so that none sends more than its
	// share. By default there is one per five requests of bots, up to 1,000,000.
	Bots int
	// From is the earliest possible time of a request, in whole microseconds; Monday 2026-01-05T00:00:00Z by default.
	From time.Time
	// Span is the duration of the traffic, 1s to ten years in whole microseconds; by default one hour, or seven days for
	// Diurnal. All requests are before From+Span.
	Span time.Duration
	// Window is the window at whose boundaries (its multiples since the Unix epoch) the edge bursters send, 1ms to five
	// years in whole microseconds; one minute by default. Edges and Mixed need a boundary after From and before
	// From+Span.
	Window time.Duration
	// MaxCost is the largest cost, up to 1,000,000; 1 by default. Costs are 1 to MaxCost, most of them small: more than half
	// are below a tenth of a large MaxCost.
	MaxCost int64
}

// The maximum values. The first halving tosses a coin for every request, which bounds the requests; the addresses bound
// the keys; and the requests and costs keep the sum of all units well within 64 bits.
const (
	maxRequests = 100_000_000_000
	maxKeys     = 1_000_000_000
	maxCost     = 1_000_000
	minSpan     = time.Second
	maxSpan     = 10 * 366 * 24 * time.Hour
)

// withDefaults returns o with every zero field replaced by its default, except Bots, which depends on the shares of the
// shape.
func (o Options) withDefaults() Options {
	setDefault(&o.Seed, 1)
	setDefault(&o.Requests, 100_000)
	setDefault(&o.Keys, 1_000)
	setDefault(&o.MaxCost, 1)
	setDefault(&o.Window, time.Minute)
	if o.Shape == Diurnal {
		setDefault(&o.Span, 7*24*time.Hour)
	}
	setDefault(&o.Span, time.Hour)
	if o.From.IsZero() {
		o.From = time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC)
	}
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// check returns an error that names the first invalid field and the fix. The defaults must be filled in.
func (o Options) check() error {
	switch {
	case o.Shape >= shapes:
		_, err := ParseShape(o.Shape.String())
		return err
	case o.Requests < 1 || o.Requests > maxRequests:
		return invalid("Requests", "must be 1 to %d, or 0 for the default, not %d", int64(maxRequests), o.Requests)
	case o.Keys < 1 || o.Keys > maxKeys:
		return invalid("Keys", "must be 1 to %d, or 0 for the default, not %d", maxKeys, o.Keys)
	case o.Bots < 0 || o.Bots > maxKeys:
		return invalid("Bots", "must be 1 to %d, or 0 for the default, not %d", maxKeys, o.Bots)
	case o.MaxCost < 1 || o.MaxCost > maxCost:
		return invalid("MaxCost", "must be 1 to %d, or 0 for the default, not %d", maxCost, o.MaxCost)
	}
	return o.checkTimes()
}

func (o Options) checkTimes() error {
	earliest, latest := time.Unix(0, 0).UTC(), rule.MaxNow.Time().UTC().Truncate(24*time.Hour)
	shortest, longest := rule.MinWindow.Duration(), rule.MaxWindow.Duration()
	switch {
	case o.Span < minSpan || o.Span > maxSpan:
		return invalid("Span", "must be %v to %v, or 0 for the default, not %v", minSpan, maxSpan, o.Span)
	case o.Span%time.Microsecond != 0:
		return invalid("Span", "%v is not a whole number of microseconds; round it", o.Span)
	case o.From.Before(earliest) || o.From.Add(o.Span).After(latest):
		return invalid("From", "the traffic must lie between %s and %s, not begin at %s and last %v",
			earliest.Format(time.DateOnly), latest.Format(time.DateOnly), o.From.Format(time.RFC3339), o.Span)
	case o.From.Nanosecond()%1_000 != 0:
		return invalid("From", "%s is not a whole number of microseconds; round it", o.From.Format(time.RFC3339Nano))
	case o.Window < shortest || o.Window > longest:
		return invalid("Window", "must be %v to %v, or 0 for the default, not %v", shortest, longest, o.Window)
	case o.Window%time.Microsecond != 0:
		return invalid("Window", "%v is not a whole number of microseconds; round it", o.Window)
	case (o.Shape == Edges || o.Shape == Mixed) && o.boundaries() == 0:
		return invalid("Window", "no boundary of a window of %v lies within the span; "+
			"make the window shorter than %v, or the span longer", o.Window, o.Span)
	}
	return nil
}

// interval returns the start and the end of the traffic, in microseconds since the Unix epoch.
func (o Options) interval() (from, to rule.Micros) {
	from = rule.Micros(o.From.UnixMicro())
	return from, from + rule.Micros(o.Span.Microseconds())
}

// boundaries returns the number of window boundaries after From and before From+Span.
func (o Options) boundaries() int64 {
	from, to := o.interval()
	window := rule.Micros(o.Window.Microseconds())
	return int64((to-1)/window - from/window)
}

// invalid returns the error of an option.
func invalid(option, format string, args ...any) error {
	return &config.OptionError{Package: "generate", Option: option, Err: fmt.Errorf(format, args...)}
}
