package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/slidegate/slidegate/config"
)

// configCommand is about files of policies.
type configCommand struct {
	Check  configCheckCommand  `cmd:"" help:"Check files, and show all that is wrong in them."`
	Print  configPrintCommand  `cmd:"" help:"Print a file as it is understood, with all defaults and without passwords."`
	Schema configSchemaCommand `cmd:"" help:"Print a JSON Schema of such files, for editors."`
}

type configCheckCommand struct {
	Files []string `arg:"" name:"file" help:"The files to check."`
}

// Run checks all files, also those after one that is wrong.
func (cmd *configCheckCommand) Run(c *console) error {
	var all []error
	for _, path := range cmd.Files {
		file, err := config.Load(path)
		if err != nil {
			all = append(all, plain(err))
			continue
		}
		limits := 0
		for _, p := range file.Policies {
			limits += len(p.Limits)
		}
		if _, err := fmt.Fprintf(c.out, "%s: ok, %s, %s\n", path,
			howMany(len(file.Policies), "policy", "policies"), howMany(limits, "limit", "limits")); err != nil {
			return err
		}
	}
	return errors.Join(all...)
}

// howMany writes a number with the word for one or for several.
func howMany(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}

type configPrintCommand struct {
	File string `arg:"" name:"file" help:"The file to print."`
}

// Run prints the file.
func (cmd *configPrintCommand) Run(c *console) error {
	file, err := config.Load(cmd.File)
	if err != nil {
		return plain(err)
	}
	_, err = c.out.Write(config.Format(file))
	return err
}

type configSchemaCommand struct{}

// Run prints the schema.
func (*configSchemaCommand) Run(c *console) error {
	_, err := c.out.Write(config.Schema())
	return err
}

// plain returns the error of a file that cannot be read without the name of the package that tried.
func plain(err error) error {
	var unreadable *fs.PathError
	if errors.As(err, &unreadable) {
		return unreadable
	}
	return err
}
