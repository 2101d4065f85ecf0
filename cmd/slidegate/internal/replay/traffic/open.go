package traffic

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/jsonscan"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/facing"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/config/errtext"
)

// Options say how to read a log. The zero value is useful: it finds out the format, limits by address (by key, for our
// own lines), and counts every request as one unit (as what it says, for our own lines).
type Options struct {
	// Format is how the log writes its lines. FormatAuto looks at the first hundred.
	Format Format
	// Key is what the key is made of. A field that the format cannot have is refused when the log is opened; one that
	// a single request does not have is counted in Source.KeyMissing.
	Key config.Template
	// Cost is what a request costs. The zero value is 1, or what a line of our own says.
	Cost config.Cost
	// IgnoreOwnCost makes Cost count for our own lines also when it is not set, or 1, which is the same.
	IgnoreOwnCost bool
	// Grouping is which addresses are one client, when the key has the address in it. What is no address is taken as
	// it is.
	Grouping clientip.Grouping
	// Filter is which requests to take.
	Filter Filter
	// Match, if it is not nil, is what a policy could say in place of Filter. Source.Differing counts the requests about
	// which the two do not agree.
	Match *facing.Patterns
	// Fields says where in a JSON log things are: paths with dots, by the names time, address, user, method, path, host,
	// status, bytes, key and cost. FormatJSON needs at least the time; in the other JSON formats it takes the place of
	// what they usually have.
	Fields map[string]string
	// About asks for Line.About.
	About bool
	// Policies are what requests face, and what makes their keys and costs where Key and Cost do not say; nil if there are
	// none. A request that faces none of them is not taken. Of several, those whose key or cost a log does not have are
	// left out, and Source.Notes says so.
	Policies *facing.Policies
	// Against are other policies that requests face as well, apart from Policies; nil if there are none. The groups of their
	// parts follow those of Policies. AgainstName is what the notes about them call them.
	Against     *facing.Policies
	AgainstName string
}

// check refuses what no log could be read by.
func (o *Options) check() error {
	if int(o.Format) >= len(layouts) {
		return invalid("Format", "there is no %v", o.Format)
	}
	names := append([]string{"time"}, (1<<fieldCount - 1 - setOf(fieldQuery)).names()...)
	for _, name := range slices.Sorted(maps.Keys(o.Fields)) {
		if !slices.Contains(names, name) {
			hint := ""
			if near, ok := errtext.Nearest(name, names); ok {
				hint = fmt.Sprintf(": did you mean %s?", near)
			}
			return invalid("Fields", "%q is not a field%s (there are %s)", name, hint, strings.Join(names, ", "))
		}
		if _, err := jsonscan.SplitPath(o.Fields[name]); err != nil {
			return invalid("Fields", "%s=%s: %w", name, o.Fields[name], err)
		}
	}
	if g := o.Grouping; g.V4 < 0 || g.V4 > 32 {
		return invalid("Grouping.V4", "must be a prefix length of 1 to 32, or 0 for %d, not %d", clientip.DefaultV4, g.V4)
	} else if g.V6 < 0 || g.V6 > 128 {
		return invalid("Grouping.V6", "must be a prefix length of 1 to 128, or 0 for %d, not %d", clientip.DefaultV6, g.V6)
	}
	return nil
}

// standardInput is what "-" is called in messages.
const standardInput = "standard input"

// Open opens a log; "-" is standard input. Close it after use.
func Open(path string, opts Options) (*Reader, error) {
	if path == "-" {
		return open(standardInput, os.Stdin, nil, opts)
	}
	file, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, inLog(path, errors.New("there is no such file: check the path, or give - for standard input"))
	case errors.Is(err, fs.ErrPermission):
		return nil, inLog(path, errors.New("it may not be read: ask for permission, or pipe it in and give -"))
	case err != nil:
		return nil, inLog(path, err)
	}
	r, err := open(path, file, file, opts)
	if err != nil {
		file.Close()
	}
	return r, err
}

// NewReader reads a log from r, which it does not close. The name is for messages and the Source.
func NewReader(name string, r io.Reader, opts Options) (*Reader, error) {
	return open(name, r, nil, opts)
}

func open(name string, from io.Reader, closer io.Closer, opts Options) (*Reader, error) {
	r := &Reader{source: Source{Name: name}, in: &input{from: from}, close: closer, size: -1}
	err := opts.check()
	if file, ok := from.(*os.File); ok && err == nil {
		r.size, err = sizeOf(file)
	}
	if err == nil {
		err = r.begin(&opts)
	}
	if err != nil {
		return nil, inLog(name, err)
	}
	return r, nil
}

// sizeOf returns the size of a file if it has one, and refuses a directory.
func sizeOf(file *os.File) (int64, error) {
	info, err := file.Stat()
	switch {
	case err != nil:
		return -1, err
	case info.IsDir():
		return -1, errors.New("it is a directory: name the files in it, such as " + strings.TrimRight(file.Name(), "/") + "/*.log")
	case !info.Mode().IsRegular():
		return -1, nil
	}
	return info.Size(), nil
}

// begin looks at the beginning of the log and gets ready to read it.
func (r *Reader) begin(opts *Options) error {
	plain, err := r.in.unpack()
	if err != nil {
		return r.failed(err)
	}
	r.lines = newScanner(plain)
	format, err := r.lookAhead(opts)
	if err != nil {
		r.in.release()
		return err
	}
	s, err := shapeOf(format, opts.Fields)
	if err == nil {
		r.plan, err = planFor(s, opts)
	}
	if err == nil {
		r.parser, err = s.newParser(r.plan)
	}
	if err != nil {
		r.in.release()
		return err
	}
	r.entry = newEntry(r.plan.wants)
	if !opts.Filter.IsZero() {
		r.filter, r.match, r.known = &opts.Filter, opts.Match, s.known()
	}
	r.format = format
	r.source.Format, r.source.Packing, r.source.Notes = s.title(), r.in.packing, r.plan.notes
	return nil
}

// lookAhead returns the format, and refuses a log that is empty or cannot even be begun.
func (r *Reader) lookAhead(opts *Options) (Format, error) {
	text := r.lines.ahead(linesToDetect)
	if bom := []byte("\xEF\xBB\xBF"); bytes.HasPrefix(text, bom) {
		r.lines.start += len(bom)
		text = text[len(bom):]
	}
	failed := r.lines.err
	if failed != nil && failed != io.EOF && bytes.IndexByte(text, '\n') < 0 {
		return 0, r.failed(failed)
	}
	if failed == io.EOF && isBlank(text) {
		return 0, errEmpty
	}
	if opts.Format != FormatAuto {
		return opts.Format, nil
	}
	return detect(firstLines(text, failed == io.EOF), opts)
}

// failed returns an error of the file with words for it.
func (r *Reader) failed(err error) error {
	if r.in.packing == "" && r.in.failed == nil {
		return err
	}
	return &cutError{r.in.whyCut(err), err}
}

// invalid returns the error of an option.
func invalid(option, format string, args ...any) error {
	return &config.OptionError{Package: "traffic", Option: option, Err: fmt.Errorf(format, args...)}
}

// inLog returns err as the error of a log.
func inLog(name string, err error) error {
	var wrong *config.OptionError
	if !errors.As(err, &wrong) {
		wrong = &config.OptionError{Package: "traffic", Err: err}
	}
	wrong.Within = name
	return wrong
}
