package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/report"
)

// output holds the files that a replay writes. They are opened before the traffic is read, so that a missing folder is reported
// at once and not an hour later.
type output struct {
	decisions *os.File
	page      *os.File
	pageNew   bool // page did not exist before
	pageDone  bool
}

// create opens the files. None of them may be an input file.
func (r *replayCommand) create() (out *output, err error) {
	out = &output{}
	for _, name := range []string{r.HTML, r.Decisions} {
		if err := checkNotInput(name, r.Files); err != nil {
			return nil, err
		}
	}
	if r.HTML != "" && r.HTML == r.Decisions {
		return nil, fmt.Errorf("--html and --decisions both name %s", r.HTML)
	}
	if r.HTML != "" {
		_, missing := os.Stat(r.HTML)
		if out.page, err = os.OpenFile(r.HTML, os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
			return nil, inFlag("--html", err)
		}
		out.pageNew = errors.Is(missing, os.ErrNotExist)
	}
	if r.Decisions != "" {
		if out.decisions, err = os.Create(r.Decisions); err != nil {
			out.close()
			return nil, inFlag("--decisions", err)
		}
	}
	return out, nil
}

// checkNotInput returns an error if the file to write is one of the files to read.
func checkNotInput(name string, files []string) error {
	if name == "" {
		return nil
	}
	own, err := os.Stat(name)
	if err != nil {
		return nil // it does not exist yet, or opening it will return the error
	}
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && os.SameFile(own, info) {
			return fmt.Errorf("%s is an input file and would be overwritten; write to another file", name)
		}
	}
	return nil
}

// write prints the report and writes the page.
func (o *output) write(c *console, d *report.Document, format string) error {
	print := map[string]func(io.Writer, *report.Document) error{"text": report.Text, "json": report.JSON, "csv": report.CSV}[format]
	if err := print(c.out, d); err != nil {
		return err
	}
	if o.page == nil {
		return nil
	}
	var page bytes.Buffer
	if err := report.HTML(&page, d); err != nil {
		return err
	}
	if err := o.page.Truncate(0); err != nil && !errors.Is(err, os.ErrInvalid) {
		return inFlag("--html", err)
	}
	if _, err := o.page.Write(page.Bytes()); err != nil {
		return inFlag("--html", err)
	}
	o.pageDone = true
	return nil
}

// close closes the files, and removes a page that was not written.
func (o *output) close() {
	if o.page != nil {
		o.page.Close()
		if o.pageNew && !o.pageDone {
			os.Remove(o.page.Name())
		}
	}
	if o.decisions != nil {
		o.decisions.Close()
	}
}
