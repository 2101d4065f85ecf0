package model

import (
	"fmt"
	"sync"
	"time"

	"github.com/slidegate/slidegate/rule"
)

// period returns the calendar period that contains a time: when clocks in the zone first show its first date or a later one, and the
// same for the next period. It finds both by looking at the clock every quarter of an hour.
func period(kind rule.Period, zone string, now Micros) (start, end Micros) {
	location := locationOf(zone)
	shown := date{}
	// Clocks that were set back over midnight do not go back to yesterday, even if they were a minute after it: days begin on a quarter.
	for t := now - now%(900*1e6) - 26*3600*1e6; t < now; t += 900 * 1e6 {
		shown = later(shown, dateOf(t, location))
	}
	first := later(shown, dateOf(now, location)).firstOf(kind)
	return firstShown(first, zone), firstShown(first.next(kind), zone)
}

// date is a day without a zone, as a time at midnight in UTC.
type date struct{ time.Time }

func dateOf(t Micros, location *time.Location) date {
	year, month, day := time.UnixMicro(t).In(location).Date()
	return date{time.Date(year, month, day, 0, 0, 0, 0, time.UTC)}
}

func later(a, b date) date {
	if a.Before(b.Time) {
		return b
	}
	return a
}

// firstOf returns the first day of the period that contains d.
func (d date) firstOf(kind rule.Period) date {
	switch kind {
	case rule.Week:
		return date{d.AddDate(0, 0, -(int(d.Weekday())+6)%7)}
	case rule.Month:
		return date{d.AddDate(0, 0, 1-d.Day())}
	case rule.Year:
		return date{d.AddDate(0, 0, 1-d.YearDay())}
	default:
		return d
	}
}

// next returns the first day of the next period.
func (d date) next(kind rule.Period) date {
	switch kind {
	case rule.Week:
		return date{d.AddDate(0, 0, 7)}
	case rule.Month:
		return date{d.AddDate(0, 1, 0)}
	case rule.Year:
		return date{d.AddDate(1, 0, 0)}
	default:
		return date{d.AddDate(0, 0, 1)}
	}
}

var shownFirst sync.Map // from zone and date to Micros

// firstShown returns when clocks in a zone first show a date or a later one.
func firstShown(d date, zone string) Micros {
	name := fmt.Sprint(zone, d.Unix())
	if found, ok := shownFirst.Load(name); ok {
		return found.(Micros)
	}
	location := locationOf(zone)
	t := d.Add(-26 * time.Hour).UnixMicro() // no zone is further ahead of UTC
	for dateOf(t, location).Before(d.Time) {
		t += 900 * 1e6
	}
	shownFirst.Store(name, t)
	return t
}

var locations sync.Map

func locationOf(zone string) *time.Location {
	if found, ok := locations.Load(zone); ok {
		return found.(*time.Location)
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		panic(err)
	}
	locations.Store(zone, location)
	return location
}
