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
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/jsonscan"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/routing"
	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/internal/fields"
	"github.com/slidegate/slidegate/internal/options"
)

// Options configures how a log is read. The zero value is valid: it detects the format, limits by address, and counts
// every request as one unit; for JSON lines it uses the key and the cost of each line.
type Options struct {
	// Format is the name of a format, or a description of its columns such as '{address} [{time}] "{request}" {status}'. ""
	// and Auto detect it from the first hundred lines.
	Format string
	// Key is the template of the key. A field that the format does not have is an error when the log is opened; requests
	// that lack a field are counted in Source.KeyMissing.
	Key fields.Template
	// Cost is the cost of a request. The zero value means 1, or the cost in the line if the format has one.
	Cost fields.Cost
	// IgnoreOwnCost applies Cost even if it is zero and the format has a cost; every line then costs 1.
	IgnoreOwnCost bool
	// Grouping determines which addresses count as one client, if the key contains the address. A value that is not an
	// address is used unchanged.
	Grouping clientip.Grouping
	// Filter selects requests.
	Filter Filter
	// Match holds patterns that could replace Filter in a policy; it may be nil. Source.Differing counts the requests for
	// which the two differ.
	Match *routing.Patterns
	// Fields holds the paths of fields in a JSON log, with dots between names, by the names time, address, user, method,
	// path, host, status, bytes, key and cost. The format json requires at least the time; in the other JSON formats they
	// replace the defaults.
	Fields map[string]string
	// Policies are the policies to replay; it may be nil. They determine keys and costs unless Key and Cost are set. A
	// request that none of them applies to is skipped. If there are several, those whose key or cost the log does not
	// have are left out, with a note in Source.Notes.
	Policies *routing.Policies
	// Against are other policies that are applied to the requests separately; it may be nil. The groups of their parts
	// follow those of Policies. AgainstName is their name in the notes.
	Against     *routing.Policies
	AgainstName string
}

// check returns an error for options that are invalid for every log.
func (o *Options) check() error {
	names := append([]string{"time"}, (1<<fieldCount - 1 - setOf(fieldQuery)).names()...)
	for _, name := range slices.Sorted(maps.Keys(o.Fields)) {
		if !slices.Contains(names, name) {
			hint := ""
			if near, ok := errtext.Nearest(name, names); ok {
				hint = fmt.Sprintf("; did you mean %s?", near)
			}
			return invalid("Fields", "unknown field %q%s (want %s)", name, hint, strings.Join(names, ", "))
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

// Open opens a log. Close it after use.
func Open(path string, opts Options) (*Reader, error) {
	file, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, inLog(path, errors.New("no such file; check the path, or use - for standard input"))
	case errors.Is(err, fs.ErrPermission):
		return nil, inLog(path, errors.New("permission denied; get read access, or pipe it in and use -"))
	case err != nil:
		return nil, inLog(path, err)
	}
	r, err := open(path, file, file, opts)
	if err != nil {
		file.Close()
	}
	return r, err
}

// NewReader returns a Reader of the log in r, which it does not close. The name is for messages and the Source.
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

// sizeOf returns the size of a regular file, -1 for other files, and an error for a directory.
func sizeOf(file *os.File) (int64, error) {
	info, err := file.Stat()
	switch {
	case err != nil:
		return -1, err
	case info.IsDir():
		return -1, errors.New("it is a directory; name the files in it, such as " + strings.TrimRight(file.Name(), "/") + "/*.log")
	case !info.Mode().IsRegular():
		return -1, nil
	}
	return info.Size(), nil
}

// begin examines the beginning of the log and prepares to read it.
func (r *Reader) begin(opts *Options) error {
	plain, err := r.in.unpack()
	if err != nil {
		return r.readError(err)
	}
	r.lines = newScanner(plain)
	var s shape
	format, err := r.lookAhead(opts)
	if err == nil {
		s, err = shapeOf(format, opts.Fields)
	}
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
	r.format = format.name
	r.source.Format, r.source.Packing, r.source.Notes = format.title, r.in.packing, r.plan.notes
	return nil
}

// lookAhead returns the format, or an error if the log is empty or its first line cannot be read.
func (r *Reader) lookAhead(opts *Options) (*layout, error) {
	text, failed := r.lines.ahead(linesToDetect)
	if bom := []byte("\xEF\xBB\xBF"); bytes.HasPrefix(text, bom) {
		text = text[len(bom):]
		r.lines.in.Discard(len(bom)) // it is buffered
	}
	if failed != nil && failed != io.EOF && bytes.IndexByte(text, '\n') < 0 {
		return nil, r.readError(failed)
	}
	if failed == io.EOF && isBlank(text) {
		return nil, errEmpty
	}
	if opts.Format != "" && opts.Format != Auto {
		return findLayout(opts.Format)
	}
	return detect(firstLines(text, failed == io.EOF), opts)
}

// readError adds an explanation to a read error.
func (r *Reader) readError(err error) error {
	if r.in.packing == "" && r.in.failed == nil {
		return err
	}
	return &cutError{r.in.cutReason(err), err}
}

// invalid returns the error of an option.
func invalid(option, format string, args ...any) error {
	return &options.Error{Package: "traffic", Option: option, Err: fmt.Errorf(format, args...)}
}

// inLog returns err with the name of the log.
func inLog(name string, err error) error {
	var wrong *options.Error
	if !errors.As(err, &wrong) {
		wrong = &options.Error{Package: "traffic", Err: err}
	}
	wrong.Within = name
	return wrong
}
