package generate

import (
	"fmt"
	"strings"
)

// Shape is a kind of traffic; the zero value is Mixed.
type Shape uint8

// The shapes; About describes each.
const (
	Mixed Shape = iota
	Steady
	Diurnal
	Zipf
	Edges
	Scraper
	Botnet
	shapes // the number of shapes
)

var shapeNames = [shapes]string{"mixed", "steady", "diurnal", "zipf", "edges", "scraper", "botnet"}

var shapeAbout = [shapes]string{
	"a believable API: zipf users by the time of day, a scraper, a botnet and some edge bursters",
	"users that come at random times, all with the same rate",
	"users by the time of day (UTC): few at night, most in the afternoon, fewer at weekends",
	"users, a few of which make most of the requests (exponent 9/8)",
	"keys that burst just before and just after window boundaries, which doubles a fixed window",
	"quiet users, and one key that suddenly sends a large share, in three long raids",
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

// String returns the shape's name, as used in flags.
func (s Shape) String() string {
	if s >= shapes {
		return fmt.Sprintf("unknown(%d)", uint8(s))
	}
	return shapeNames[s]
}

// ParseShape returns the shape with the given name.
func ParseShape(name string) (Shape, error) {
	for i, n := range shapeNames {
		if n == name {
			return Shape(i), nil
		}
	}
	return 0, invalid("Shape", "must be one of %s, not %q", strings.Join(shapeNames[:], ", "), name)
}

// MarshalText implements encoding.TextMarshaler.
func (s Shape) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Shape) UnmarshalText(text []byte) error {
	parsed, err := ParseShape(string(text))
	if err == nil {
		*s = parsed
	}
	return err
}
