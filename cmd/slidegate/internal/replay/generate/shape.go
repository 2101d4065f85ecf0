package generate

import (
	"fmt"
	"strings"
)

// Shape is what kind of traffic is made; the zero value is Mixed.
type Shape uint8

// The shapes. About says what each is like.
const (
	Mixed Shape = iota
	Steady
	Diurnal
	Zipf
	Edges
	Scraper
	Botnet
	shapes // how many there are
)

var shapeNames = [shapes]string{"mixed", "steady", "diurnal", "zipf", "edges", "scraper", "botnet"}

var shapeAbout = [shapes]string{
	"a believable API: zipf users by the time of day, a scraper, a botnet and some edge bursters",
	"users that come at random times, all of them equally often",
	"users by the time of day (UTC): few at night, most in the afternoon, fewer at weekends",
	"users of whom few make most of the requests (exponent 9/8)",
	"keys that burst just before and just after window boundaries, which doubles a fixed window",
	"quiet users, and one key that suddenly sends a large share, in three long stretches",
	"quiet users, and thousands of bots far below any sensible limit that make most of the traffic",
}

// Shapes returns all shapes, the default first.
func Shapes() []Shape {
	list := make([]Shape, shapes)
	for i := range list {
		list[i] = Shape(i)
	}
	return list
}

// About describes the shape in one line, for help texts.
func (s Shape) About() string {
	if s >= shapes {
		return s.String()
	}
	return shapeAbout[s]
}

// String returns the shape's name, as flags spell it.
func (s Shape) String() string {
	if s >= shapes {
		return fmt.Sprintf("unknown(%d)", uint8(s))
	}
	return shapeNames[s]
}

// ParseShape reads the name of a shape.
func ParseShape(name string) (Shape, error) {
	for i, n := range shapeNames {
		if n == name {
			return Shape(i), nil
		}
	}
	return 0, invalid("Shape", "must be one of %s, not %q", strings.Join(shapeNames[:], ", "), name)
}

// MarshalText makes a Shape readable in JSON, YAML and flags.
func (s Shape) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the name of a shape.
func (s *Shape) UnmarshalText(text []byte) error {
	parsed, err := ParseShape(string(text))
	if err == nil {
		*s = parsed
	}
	return err
}
