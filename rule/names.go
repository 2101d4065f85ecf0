package rule

import "fmt"

var (
	overlapNames = []string{"up", "down", "whole"}
	anchorNames  = []string{"clock", "first"}
	opNames      = []string{"take", "take-up-to", "peek", "charge", "give-back", "reset", "settle", "renew"}
	periodNames  = []string{"none", "day", "week", "month", "year"}
)

// String returns the algorithm's name, as written in limits and configuration files.
func (a Algorithm) String() string {
	if int(a) < len(algorithms) {
		return algorithms[a].name
	}
	return unknown(int(a))
}

// String returns the overlap's name, as written in limits and configuration files.
func (o Overlap) String() string { return nameOf(overlapNames, int(o)) }

// String returns the anchor's name, as written in limits and configuration files.
func (a Anchor) String() string { return nameOf(anchorNames, int(a)) }

// String returns the period's name, such as "month".
func (p Period) String() string { return nameOf(periodNames, int(p)) }

// String returns the operation's name, such as "take" or "give-back".
func (o Op) String() string { return nameOf(opNames, int(o)) }

func nameOf(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return unknown(i)
}

func unknown(i int) string { return fmt.Sprintf("unknown(%d)", i) }
