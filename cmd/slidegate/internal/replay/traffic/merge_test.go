package traffic

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/slidegate/slidegate/rule"
)

// script returns lines with given times, and then an error. Like a Reader it reuses the bytes of its lines.
type script struct {
	name  string
	times []int64
	err   error
	key   []byte
}

func (s *script) Next(line *Line) error {
	for i := range s.key {
		s.key[i] = '?'
	}
	if len(s.times) == 0 {
		return s.err
	}
	s.key = append(s.key[:0], s.name...)
	*line = Line{At: rule.Micros(s.times[0]), Key: s.key, Cost: 1}
	s.times = s.times[1:]
	return nil
}

func drain(r Lines) (got []string, err error) {
	var line Line
	for {
		if err := r.Next(&line); err != nil {
			return got, err
		}
		got = append(got, fmt.Sprintf("%s%d", line.Key, line.At))
	}
}

func TestMerge(t *testing.T) {
	broken := errors.New("broken")
	for _, test := range []struct {
		readers []Lines
		want    string
		err     error
	}{
		{nil, "", io.EOF},
		{[]Lines{&script{name: "a", times: []int64{1, 2}, err: io.EOF}}, "a1 a2", io.EOF},
		{[]Lines{
			&script{name: "a", times: []int64{1, 4, 5}, err: io.EOF},
			&script{name: "b", err: io.EOF},
			&script{name: "c", times: []int64{2, 3, 6}, err: io.EOF},
		}, "a1 c2 c3 a4 a5 c6", io.EOF},
		{[]Lines{ // equal times are in the order of the arguments
			&script{name: "a", times: []int64{2, 2}, err: io.EOF},
			&script{name: "b", times: []int64{1, 2}, err: io.EOF},
			&script{name: "c", times: []int64{2}, err: io.EOF},
		}, "b1 a2 a2 b2 c2", io.EOF},
		{[]Lines{ // an unsorted reader is not sorted
			&script{name: "a", times: []int64{5, 1, 6}, err: io.EOF},
			&script{name: "b", times: []int64{2, 7}, err: io.EOF},
		}, "b2 a5 a1 a6 b7", io.EOF},
		{[]Lines{ // an error ends the traffic when it is reached, after the line before it has been returned
			&script{name: "a", times: []int64{1, 3}, err: broken},
			&script{name: "b", times: []int64{2, 4}, err: io.EOF},
		}, "a1 b2 a3", broken},
		{[]Lines{&script{name: "a", times: []int64{1}, err: io.EOF}, &script{name: "b", err: broken}}, "", broken},
	} {
		merged := Merge(test.readers...)
		got, err := drain(merged)
		if strings.Join(got, " ") != test.want || err != test.err {
			t.Errorf("got %q and %v, want %q and %v", got, err, test.want, test.err)
		}
		if again := merged.Next(&Line{}); again != test.err {
			t.Errorf("after the end: got %v, want %v again", again, test.err)
		}
	}
}

func TestMergeOfOneReaderReturnsIt(t *testing.T) {
	one := &script{}
	if Merge(one) != Lines(one) {
		t.Error("got a wrapped reader, want the reader itself")
	}
}

// Merging sorted readers equals a stable sort of all their lines.
func TestMergeIsAStableSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type stamp struct {
			at   int64
			name string
		}
		var all []stamp
		var readers []Lines
		for i := range rapid.IntRange(2, 12).Draw(t, "readers") {
			times := rapid.SliceOfN(rapid.Int64Range(1, 30), 0, 20).Draw(t, "times")
			slices.Sort(times)
			name := string(rune('a' + i))
			readers = append(readers, &script{name: name, times: times, err: io.EOF})
			for _, at := range times {
				all = append(all, stamp{at, name})
			}
		}
		slices.SortStableFunc(all, func(a, b stamp) int { return int(a.at - b.at) })
		var want []string
		for _, s := range all {
			want = append(want, fmt.Sprintf("%s%d", s.name, s.at))
		}
		if got, err := drain(Merge(readers...)); !slices.Equal(got, want) || err != io.EOF {
			t.Fatalf("got %v and %v, want %v", got, err, want)
		}
	})
}
