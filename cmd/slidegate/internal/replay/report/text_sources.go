package report

import (
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"
)

// textSources prints what was read, what could not be read, and whether it was in order.
func textSources(b *strings.Builder, sources []traffic.Source, order replay.Order) {
	if len(sources) == 0 && order == (replay.Order{}) {
		return
	}
	heading(b, "What was read")
	if len(sources) == 1 {
		oneSource(b, &sources[0])
	} else if len(sources) > 1 {
		manySources(b, sources)
	}
	if order.OutOfOrder > 0 {
		wrap(b, "  "+orderWords(order))
	}
	for i := range sources {
		badLines(b, &sources[i])
	}
}

// formatOf returns the format of a source and how it was compressed.
func formatOf(s *traffic.Source) string {
	if s.Packing != "" {
		return s.Format + ", " + s.Packing
	}
	return s.Format
}

func oneSource(b *strings.Builder, s *traffic.Source) {
	t := table{left: 2}
	t.add("from", visible(s.Name, 2*keyWidth))
	t.add("format", visible(formatOf(s), keyWidth))
	t.add("lines", number(s.Lines))
	t.add("requests", number(s.Requests))
	if s.Filtered > 0 {
		t.add("filtered", number(s.Filtered))
	}
	if s.Unmatched > 0 {
		t.add("unmatched", number(s.Unmatched)+" (no policy applies, and no figure includes them)")
	}
	if s.Unreadable > 0 {
		t.add("unreadable", number(s.Unreadable)+" ("+percent(s.Unreadable, s.Lines)+")")
	}
	if s.KeyMissing > 0 {
		t.add("without the key", number(s.KeyMissing))
	}
	t.write(b)
}

func manySources(b *strings.Builder, sources []traffic.Source) {
	t := table{left: 2}
	t.add("from", "format", "lines", "requests", "filtered", "unreadable", "without key")
	for i := range sources {
		s := &sources[i]
		t.add(visible(s.Name, 30), visible(formatOf(s), 20), number(s.Lines), number(s.Requests), number(s.Filtered),
			number(s.Unreadable), number(s.KeyMissing))
	}
	s := sumOfSources(sources)
	t.add("all "+number(int64(len(sources))), "", number(s.Lines), number(s.Requests), number(s.Filtered), number(s.Unreadable),
		number(s.KeyMissing))
	t.write(b)
	if s.Unmatched > 0 {
		wrap(b, "  "+unmatchedWords(s.Unmatched))
	}
}

// sumOfSources adds up the counts of all sources.
func sumOfSources(sources []traffic.Source) (sum traffic.Source) {
	for i := range sources {
		sum.Lines += sources[i].Lines
		sum.Requests += sources[i].Requests
		sum.Filtered += sources[i].Filtered
		sum.Unmatched += sources[i].Unmatched
		sum.Unreadable += sources[i].Unreadable
		sum.KeyMissing += sources[i].KeyMissing
	}
	return sum
}

// orderWords describes how far the traffic was out of order.
func orderWords(o replay.Order) string {
	if o.OutOfOrder == 0 {
		return "All requests were in order of time."
	}
	text := count(o.OutOfOrder, "request") + " out of order, by up to " + span(o.Furthest) + "; "
	if o.TooLate == 0 {
		return text + "all were sorted."
	}
	return text + number(o.TooLate) + " came too late to be sorted."
}

// badLines prints the first unreadable lines, and why a file ended early.
func badLines(b *strings.Builder, s *traffic.Source) {
	if s.Cut != "" {
		b.WriteString("  ! " + visible(s.Name, keyWidth) + " is truncated: " + visible(s.Cut, hintWidth) + "\n")
	}
	if len(s.Examples) == 0 {
		return
	}
	b.WriteString("  Unreadable in " + visible(s.Name, 2*keyWidth))
	if int64(len(s.Examples)) < s.Unreadable {
		b.WriteString(", the first " + number(int64(len(s.Examples))) + " of " + number(s.Unreadable))
	}
	b.WriteString(":\n")
	for _, line := range s.Examples {
		b.WriteString("    line " + number(line.Number) + ": " + visible(line.Why, lineWidth) + "\n")
		b.WriteString("      " + visible(line.Text, lineWidth) + "\n")
	}
}
