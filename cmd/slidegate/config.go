package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/envoy"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/open"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/internal/yamlfile"
)

// configCommand groups the commands for policy files.
type configCommand struct {
	Check   configCheckCommand   `cmd:"" help:"Check files, and show the errors in them."`
	Print   configPrintCommand   `cmd:"" help:"Print a file as the service reads it, with all defaults and without passwords."`
	Running configRunningCommand `cmd:"" help:"Print the policies in force in a running service, with their hash and the time they were loaded."`
	Schema  configSchemaCommand  `cmd:"" help:"Print a JSON Schema of policy files, for editors."`
}

type configCheckCommand struct {
	Files []string `arg:"" optional:"" name:"file" help:"Policy files, files of Envoy rules, and folders of them; - is standard input. Policy files are read as one, like several --config of serve."`
	Envoy []string `placeholder:"PATH" sep:"none" help:"File of rules in the format of envoyproxy/ratelimit, or a folder of such files. All are checked together, as serve reads them."`
	For   string   `enum:"serve,proxy,replay" default:"serve" help:"Command that will use the files: serve, proxy, replay. Only with replay may keys and costs use fields that only recorded traffic has."`
	Each  bool     `help:"Check each policy file separately."`

	Against string `placeholder:"URL" help:"URL of the admin listener of a running service, or unix:/path. Also list the limits whose counts would start empty if it loaded the policy files: those with another name, window or algorithm. Another quota continues the counts."`
	Token   string `env:"SLIDEGATE_TOKEN" placeholder:"TOKEN" help:"Token to send to that service." group:"Service"`
	serverTLS

	Connect bool `help:"Also connect to the store of the policy files, and write a charge to it. References to environment variables and secret files are resolved."`
}

// Run checks all files, including those after an invalid one.
func (cmd *configCheckCommand) Run(ctx context.Context, c *console) error {
	if len(cmd.Files)+len(cmd.Envoy) == 0 {
		return errors.New("nothing to check; name a file, - for standard input, or --envoy PATH")
	}
	files, err := yamlfile.Files(cmd.Files...)
	all := []error{err}
	var policies []string
	for _, path := range files {
		name, text, err := readConfig(c, path)
		switch {
		case err != nil:
			all = append(all, err)
		case isRuleFile(text):
			all = append(all, checkRuleFile(c, name, text))
		case cmd.Each:
			all = append(all, cmd.check(ctx, c, path))
		default:
			policies = append(policies, path)
		}
	}
	if len(policies) > 0 {
		all = append(all, cmd.check(ctx, c, policies...))
	}
	for _, path := range cmd.Files {
		all = append(all, checkFolder(path))
	}
	if len(cmd.Envoy) > 0 {
		all = append(all, cmd.checkRules(c, cmd.Envoy))
	}
	return errors.Join(all...)
}

// check checks policy files that are read as one, and prints a summary.
func (cmd *configCheckCommand) check(ctx context.Context, c *console, paths ...string) error {
	file, err := config.Load(config.Options{Offline: !cmd.Connect, RequireKeys: cmd.For != "replay", Stdin: c.in}, paths...)
	if err == nil && cmd.For != "replay" {
		err = service.Check(file, cmd.For == "proxy")
	}
	if err != nil {
		return err
	}
	for _, warning := range file.Warnings {
		fmt.Fprintf(c.err, "warning: %v\n", warning)
	}
	names := slices.Clone(paths)
	if at := slices.Index(names, "-"); at >= 0 {
		names[at] = stdinName
	}
	limits := 0
	for _, p := range file.Policies {
		limits += len(p.Limits)
	}
	summary := plural(len(file.Policies), "policy", "policies") + ", " + plural(limits, "limit", "limits")
	if cmd.For == "serve" {
		summary += slotsNote(file)
	}
	if cmd.Connect {
		name, err := connect(ctx, file.Service.Store)
		if err != nil {
			return file.Locate(err)
		}
		summary += "; connected to " + name + ", and a charge was written"
	}
	if _, err = fmt.Fprintf(c.out, "%s: ok, %s\n", strings.Join(names, ", "), summary); err != nil || cmd.Against == "" {
		return err
	}
	return cmd.compare(ctx, c, file)
}

// compare lists the limits whose counts would start empty in the service that Against names.
func (cmd *configCheckCommand) compare(ctx context.Context, c *console, file *config.File) error {
	client, err := newClient("--against", cmd.Against, cmd.Token, cmd.serverTLS)
	if err != nil {
		return err
	}
	defer client.http.CloseIdleConnections()
	var running service.Running
	if _, err := client.ask(ctx, http.MethodGet, "/v1/config", nil, &running); err != nil {
		return err
	}
	inForce, err := config.Load(config.Options{Offline: true, Stdin: strings.NewReader(running.Config)}, "-")
	if err != nil {
		return fmt.Errorf("--against: the policies in force cannot be read; is the service of another version? %w", err)
	}
	others := gate.OtherCounts(inForce, file)
	if len(others) == 0 {
		_, err = fmt.Fprintf(c.out, "against %s: every limit of a policy that is in force continues its counts\n", client.base)
		return err
	}
	for _, other := range others {
		fmt.Fprintf(c.out, "against %s: policy %s: the counts of the limit %s would start empty\n", client.base, other.Policy, other.Limit)
	}
	return nil
}

// connect connects to a store, writes a charge to it, and returns its name.
func connect(ctx context.Context, url string) (name string, err error) {
	opened, err := open.Open(ctx, url, open.Options{Require: true})
	if err != nil {
		return "", err
	}
	return opened.Store.Traits().Name, opened.Close()
}

// checkRuleFile checks a file of Envoy rules, and prints its domain.
func checkRuleFile(c *console, name string, text []byte) error {
	domain, err := envoy.Parse(name, text)
	if err == nil {
		err = service.CheckDomains(domain)
	}
	if err == nil {
		_, err = fmt.Fprintf(c.out, "%s: ok, domain %q\n", name, domain.Name())
	}
	return err
}

// slotsNote names the policies with in-flight limits, whose slots clients must acquire and release: allow and check do not suffice.
func slotsNote(file *config.File) (note string) {
	names := gate.SlotPolicies(file)
	if len(names) == 0 {
		return ""
	}
	return "; policies with an in-flight limit, which need /v1/acquire instead of /v1/allow, /v1/check or SG.ALLOW: " + firstFew(names)
}

// checkFolder checks the rules of a folder together, as serve reads them, if each file is valid.
func checkFolder(path string) error {
	files, err := yamlfile.Files(path)
	if err != nil || len(files) < 2 {
		return nil // Run has reported the error, or has checked the only file
	}
	var domains []*envoy.Domain
	for _, file := range files {
		text, err := yamlfile.Read(file)
		if err != nil || !isRuleFile(text) {
			continue
		}
		domain, err := envoy.Parse(file, text)
		if err != nil {
			return nil
		}
		domains = append(domains, domain)
	}
	return service.CheckDomains(domains...)
}

// checkRules checks several files of rules together.
func (cmd *configCheckCommand) checkRules(c *console, paths []string) error {
	domains, err := service.LoadDomains(paths)
	if err == nil {
		err = service.CheckDomains(domains...)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "%s: ok, %s\n", strings.Join(paths, ", "), plural(len(domains), "domain", "domains"))
	return err
}

// isRuleFile reports whether a file has the fields of envoyproxy/ratelimit, and not those of a policy file.
func isRuleFile(text []byte) bool {
	var r yamlfile.Reader
	root, _ := r.Document(text, "", "")
	if root == nil {
		return false
	}
	found := false
	fields, _ := r.Fields(root)
	for _, field := range fields {
		if field.Name == "policies" {
			return false
		}
		found = found || field.Name == "domain" || field.Name == "descriptors"
	}
	return found
}

// stdinName is the name of standard input in messages.
const stdinName = "<stdin>"

// readConfig reads a file; - is standard input, which can be read again afterwards.
func readConfig(c *console, path string) (name string, text []byte, err error) {
	if path != "-" {
		text, err = yamlfile.Read(path)
		return path, text, err
	}
	text, err = io.ReadAll(io.LimitReader(c.in, yamlfile.MaxSize+1))
	c.in = bytes.NewReader(text)
	return stdinName, text, err
}

// plural formats n with a noun in the singular or the plural: "1 rule", "2 rules".
func plural(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}

type configPrintCommand struct {
	Files []string `arg:"" name:"file" help:"Policy file to print, or a folder of files; - is standard input. Several files are read as one."`
}

// Run prints the files as one file.
func (cmd *configPrintCommand) Run(c *console) error {
	file, err := config.Load(config.Options{Offline: true, Stdin: c.in}, cmd.Files...)
	if err != nil {
		return withoutPackage(err)
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

// withoutPackage strips the package name from the error of a file that cannot be read.
func withoutPackage(err error) error {
	var unreadable *fs.PathError
	if errors.As(err, &unreadable) {
		return unreadable
	}
	return err
}
