package main

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/slidegate/slidegate/internal/options"
)

// withoutFlag are the options that errors may be about and that no flag sets: they are in policy files, or only the program sets them.
var withoutFlag = []string{
	"gate.file", "service.File",
	"gate.default_policy", "gate.overrides", "gate.policies", "gate.refusal", "config.jwt", "config.notify", "service.envoy", "xds.envoy",
}

// computed are the options that calls pass as a variable, by the package of the calls.
var computed = map[string][]string{
	"config":  {"cost"},
	"gate":    {"failure", "limits", "overrides"},
	"service": {"Admin", "AdminTokens", "AdminTokensFile", "Tokens", "TokensFile", "Envoy", "envoy", "GRPC", "HTTP", "Metrics", "Proxy", "RESP"},
	"traffic": {"Cost", "Filter.Method", "Filter.Path", "Filter.Status", "Key"},
}

// Every option that an error can be about is in the tag of a flag or in withoutFlag, and no flag names an option that no error is
// about.
func TestOptionsHaveFlags(t *testing.T) {
	var flags []string
	for _, node := range model(t).Leaves(false) {
		for _, value := range node.Flags {
			flags = append(flags, strings.Fields(value.Tag.Get("option"))...)
		}
	}
	options := optionsOf(t, "internal", filepath.Join("..", "..", "config"))
	if len(options) < 40 {
		t.Fatalf("got only the options %q: the test looks in the wrong place", options)
	}
	for _, option := range options {
		if slices.Contains(flags, option) == slices.Contains(withoutFlag, option) {
			t.Errorf("%s: add it to the tag option of the flag that sets it, or to withoutFlag, but not to both", option)
		}
	}
	for _, option := range slices.Concat(flags, withoutFlag) {
		if !slices.Contains(options, option) {
			t.Errorf("%s: no error is about this option", option)
		}
	}
}

// Whatever the text of an error, the message names the flag of its option, and not its package.
func TestMessageNamesFlagOfOption(t *testing.T) {
	for _, node := range model(t).Leaves(false) {
		c := &console{node: node}
		for _, value := range node.Flags {
			for _, option := range strings.Fields(value.Tag.Get("option")) {
				pkg, name, _ := strings.Cut(option, ".")
				got := c.message(errors.Join(&options.Error{Package: pkg, Option: name, Err: errors.New("server: http: is odd")}))
				place, text, _ := strings.Cut(got, ": ")
				if !strings.Contains(place, value.Name) && !strings.Contains(place, "--limit") || text != "server: http: is odd" {
					t.Errorf("%s: %s: got %q, want the flag before the text", node.Name, option, got)
				}
			}
		}
	}
}

// Messages omit package names at every depth, and name the policy file if the error is in it.
func TestMessage(t *testing.T) {
	why := errors.New("is odd")
	store := &options.Error{Package: "open", Option: "URL", Err: why}
	policy := &options.Error{Package: "gate", Within: `policy "api"`, Option: "limits", Err: why}
	key := &options.Error{Package: "config", Within: `policy "api"`, Option: "key", Err: why}
	choice := &options.Error{Package: "config", Option: "policy", Err: why}
	proxies := &options.Error{Package: "config", Option: "trusted_proxies", Err: why}
	for _, test := range []struct {
		args []string
		err  error
		want string
	}{
		{[]string{"serve", "--config", "f.yaml"}, key, `f.yaml: policy "api": key: is odd`},
		{[]string{"proxy", "--to", "http://h", "--config", "f.yaml"}, key, `f.yaml: policy "api": key: is odd`},
		{[]string{"proxy", "--to", "http://h", "--key", "{status}"}, key, "--key: is odd"},
		{[]string{"proxy", "--to", "http://h", "--config", "f.yaml"}, proxies, "f.yaml: trusted_proxies: is odd"},
		{[]string{"proxy", "--to", "http://h", "--trusted-proxies", "x"}, proxies, "--trusted-proxies: is odd"},
		{[]string{"replay", "--config", "f.yaml"}, choice, "--policy: is odd"},
		{[]string{"replay", "--config", "f.yaml", "--policy", "x"}, choice, "--policy: is odd"},
		{[]string{"serve", "--store", "memory:"}, store, "--store: is odd"},
		{[]string{"serve"}, store, "--store: is odd"},
		{[]string{"serve", "--config", "f.yaml"}, store, "f.yaml: store: is odd"},
		{[]string{"replay", "--config", "f.yaml"}, &options.Error{Package: "traffic", Within: "a.log", Option: "Key", Err: why}, "f.yaml: a.log: key: is odd"},
		{[]string{"serve", "--config", "f.yaml"}, &options.Error{Package: "service", Option: "TLS.Key", Err: why}, "--tls-key: is odd"},
		{[]string{"serve", "--config", "f.yaml"}, &options.Error{Package: "service", Option: "File", Err: why}, "File: is odd"},
		{[]string{"serve", "--limit", "1/1m"}, policy, "--limit: is odd"},
		{[]string{"serve", "--config", "f.yaml"}, policy, `f.yaml: policy "api": limits: is odd`},
		{[]string{"proxy", "--to", "http://h", "--limit", "1/1m", "--route", "/=1/1m"}, policy, "--limit, --route: is odd"},
		{[]string{"proxy", "--to", "http://h", "--route", "/=1/1m"}, policy, "--route: is odd"},
		{[]string{"serve"}, errors.Join(store, inFlag("--state", why)), "--store: is odd\n--state: is odd"},
		{[]string{"serve"}, &options.Error{Package: "service", Option: "File", Err: why}, "File: is odd"},
		{[]string{"replay"}, &options.Error{Package: "traffic", Within: "a.log", Err: why}, "a.log: is odd"},
		{[]string{"replay"}, &options.Error{Package: "traffic", Within: "a.log", Option: "Fields", Err: why}, "--field: a.log: is odd"},
	} {
		parsed, err := kong.Must(&commands{}, kong.Vars(helpVars())).Parse(test.args)
		if err != nil {
			t.Fatal(err)
		}
		if got := (&console{node: parsed.Selected()}).message(test.err); got != test.want {
			t.Errorf("%q: got %q, want %q", test.args, got, test.want)
		}
	}
}

// wrongFlags maps command lines to their invalid flag. Other tests check the rest of the messages, so rewording them needs no change here.
type wrongFlags map[string]string

func wrongForServe(t *testing.T, taken, missing string) wrongFlags {
	short := write(t, "short.txt", []byte("hunter2\n"))
	serve := "serve --http 127.0.0.1:0 --grpc off --resp off --admin off "
	return wrongFlags{
		"serve --http " + taken:                                                         "--http",
		"serve --http off --grpc off --resp off --admin off":                            "--http",
		"serve --http off --resp off --admin off --grpc " + taken:                       "--grpc",
		"serve --http off --grpc off --admin off --resp " + taken:                       "--resp",
		"serve --http off --grpc off --resp off --admin " + taken:                       "--admin",
		"serve --http off --grpc off --resp off --admin 127.0.0.1:0 --metrics " + taken: "--metrics",
		"serve --admin 0.0.0.0:0":                                                       "--admin",
		serve + "--envoy " + missing:                                                    "--envoy",
		serve + "--state /dev/null":                                                     "--state",
		serve + "--instances 0":                                                         "--instances",
		serve + "--drain-delay=-1s":                                                     "--drain-delay",
		serve + "--socket-mode 999":                                                     "--socket-mode",
		serve + "--drain 0s":                                                            "--drain",
		serve + "--max-connections 0":                                                   "--max-connections",
		serve + "--admin-tokens-file " + missing:                                        "--admin-tokens-file or SLIDEGATE_ADMIN_TOKENS",
		"reload --server nowhere":                                                       "--server",
		"config running --server nowhere":                                               "--server",
		serve + "--tokens-file " + missing:                                              "--tokens-file or SLIDEGATE_TOKENS",
		serve + "--tokens-file " + short:                                                "--tokens-file or SLIDEGATE_TOKENS",
		serve + "--tls-key x.pem":                                                       "--tls-cert",
		serve + "--tls-cert x.pem":                                                      "--tls-key",
		serve + "--tls-client-ca x.pem":                                                 "--tls-client-ca",
		serve + "--tls-cert " + missing + " --tls-key x":                                "--tls-cert",
		serve + "--tls-cert " + short + " --tls-key " + missing:                         "--tls-key",
		serve + "--tls-cert " + short + " --tls-key " + short:                           "--tls-cert",
		serve + "--limit ten":                                                           "--limit",
		serve + "--limit 1/1m --limit 2/1m":                                             "--limit",
		serve + "--store ftp://x":                                                       "--store",
		serve + "--store memory:?max_bytes=few":                                         "--store",
		serve + "--failure never":                                                       "--failure",
		serve + "--config " + missing:                                                   "--config",
		serve + "--max-connections-per-address=-1":                                      "--max-connections-per-address",
		serve + "--allowed-hosts http://x":                                              "--allowed-hosts",
		serve + "--reservation-key-file " + missing:                                     "--reservation-key-file",
		serve + "--reservation-key-file " + short:                                       "--reservation-key-file",
		serve + "--ipv4-prefix 33":                                                      "--ipv4-prefix",
		serve + "--ipv6-prefix 0":                                                       "--ipv6-prefix",
		serve + "--ipv4-prefix 0":                                                       "--ipv4-prefix",
		serve + "--ipv4-prefix 24 --ipv6-prefix 129":                                    "--ipv6-prefix",
		serve + "--ipv6-prefix 129":                                                     "--ipv6-prefix",
	}
}

func wrongForProxy(taken, missing string) wrongFlags {
	proxy := "proxy --to http://h --admin off "
	return wrongFlags{
		"proxy --to h:1":                                          "--to",
		proxy + "--http " + taken:                                 "--http",
		proxy + "--route login=1/1s":                              "--route",
		proxy + "--route /=1/1s --route /=2/1s":                   "--route",
		proxy + "--key {nobody}":                                  "--key",
		proxy + "--key {status}":                                  "--key",
		proxy + "--trusted-proxies all":                           "--trusted-proxies",
		proxy + "--trusted-proxies 10.0.0.1/8":                    "--trusted-proxies",
		proxy + "--timeout 0s":                                    "--timeout",
		"proxy --to http://h --http 127.0.0.1:0 --admin " + taken: "--admin",
		proxy + "--admin 0.0.0.0:0":                               "--admin",
		proxy + "--http 127.0.0.1:0 --metrics " + taken:           "--metrics",
		proxy + "--state /dev/null":                               "--state",
		proxy + "--instances 0":                                   "--instances",
		proxy + "--tokens-file " + missing:                        "--tokens-file or SLIDEGATE_TOKENS",
		proxy + "--http off":                                      "--http",
		proxy + "--http unix:/x":                                  "--http",
		proxy + "--drain 0s":                                      "--drain",
		proxy + "--max-connections 0":                             "--max-connections",
		proxy + "--max-connections-per-address=-1":                "--max-connections-per-address",
		proxy + "--websocket-idle 0s":                             "--websocket-idle",
		proxy + "--tls-cert x":                                    "--tls-key",
		proxy + "--tls-client-ca x":                               "--tls-client-ca",
		proxy + "--tls-cert x.pem --tls-key y":                    "--tls-cert",
		proxy + "--store redis://u:p@h?prefx=a":                   "--store",
		proxy + "--failure never":                                 "--failure",
		proxy + "--limit ten":                                     "--limit",
		proxy + "--config " + missing:                             "--config",
		proxy + "--ipv4-prefix 33":                                "--ipv4-prefix",
		proxy + "--ipv6-prefix=-1":                                "--ipv6-prefix",
	}
}

func wrongForOthers(t *testing.T, missing string) wrongFlags {
	log := write(t, "good.jsonl", []byte(log))
	policies := write(t, "policies.yaml", []byte("policies: {a: {limits: [1/1m]}}\n"))
	return wrongFlags{
		"replay --log combned " + log:                                       "--log",
		"replay --key adress " + log:                                        "--key",
		"replay --key header:A " + log:                                      "--key",
		"replay --cost lots " + log:                                         "--cost",
		"replay --cost bytes " + log:                                        "--cost",
		"replay --field tim=ts " + log:                                      "--field",
		"replay --ipv4-prefix 33 " + log:                                    "--ipv4-prefix",
		"replay --ipv6-prefix 129 " + log:                                   "--ipv6-prefix",
		"replay --method GET/ " + log:                                       "--method",
		"replay --method GET " + log:                                        "--method",
		"replay --path /a?b " + log:                                         "--path",
		"replay --status 20x " + log:                                        "--status",
		"replay --sort=-1s " + log:                                          "--sort",
		"replay --top=-1 " + log:                                            "--top",
		"replay --sweep 9..1 " + log:                                        "--sweep",
		"replay --suggest few " + log:                                       "--suggest",
		"replay --suggest 101% " + log:                                      "--suggest",
		"replay --decisions /dev/full " + log:                               "--decisions",
		"replay --decisions " + missing + " " + log:                         "--decisions",
		"replay --html " + missing + " " + log:                              "--html",
		"replay --limit ten " + log:                                         "--limit",
		"replay --limit 5/1m --limit 5/1m " + log:                           "--limit",
		"replay --config " + missing + " " + log:                            "--config",
		"replay --config " + policies + " --against " + missing + " " + log: "--against",
		"allow me --cost=-1":                                                "--cost",
		"allow me --server nowhere":                                         "--server",
		"rulings --server nowhere":                                          "--server",
		"replay --config " + policies + " --policy b " + log:                "--policy",
	}
}

// A message about an invalid flag begins with the flag.
func TestMessageBeginsWithInvalidFlag(t *testing.T) {
	t.Setenv("SLIDEGATE_TOKENS", "")
	t.Setenv("SLIDEGATE_TOKEN", "")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	taken, missing := listener.Addr().String(), filepath.Join(t.TempDir(), "missing", "file")
	seen := map[string]bool{}
	for _, all := range []wrongFlags{wrongForServe(t, taken, missing), wrongForProxy(taken, missing), wrongForOthers(t, missing)} {
		for args, flag := range all {
			r := callBriefly(t, strings.Fields(args)...)
			if r.status != exitFailure || !strings.HasPrefix(r.err, "slidegate: "+flag+": ") {
				t.Errorf("%s: got status %d and\n%swant an error about %s", args, r.status, r.err, flag)
			}
			flag, _, _ = strings.Cut(flag, " ")
			seen[flag] = true
		}
	}
	for _, node := range model(t).Leaves(false) {
		for _, value := range node.Flags {
			name := "--" + value.Name
			// kong checks the values of the first three, and --otlp is configured by variables.
			elsewhere := slices.Contains([]string{"--headers", "--log-refusals", "--state-degree", "--otlp"}, name)
			if value.Tag.Get("option") != "" && !seen[name] && !elsewhere {
				t.Errorf("%s %s: no test case for an invalid value", node.Name, name)
			}
		}
	}
}

// model returns the commands and their flags.
func model(t *testing.T) *kong.Node {
	t.Helper()
	parser, err := kong.New(&commands{}, kong.Vars(helpVars()))
	if err != nil {
		t.Fatal(err)
	}
	return parser.Model.Node
}

// optionsOf returns the options that the packages in folders return errors about, each as package.option.
func optionsOf(t *testing.T, folders ...string) (options []string) {
	t.Helper()
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				return err
			}
			for _, name := range optionsIn(t, files, file) {
				options = append(options, file.Name.Name+"."+name)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(options)
	return slices.Compact(options)
}

// optionsIn returns the options that a file returns errors about: in calls of invalid, and in OptionErrors that it creates itself.
func optionsIn(t *testing.T, files *token.FileSet, file *ast.File) (options []string) {
	ast.Inspect(file, func(node ast.Node) bool {
		var name ast.Expr
		switch n := node.(type) {
		case *ast.FuncDecl:
			return n.Name.Name != "invalid" // it passes on its argument
		case *ast.CallExpr:
			if called, ok := n.Fun.(*ast.Ident); !ok || called.Name != "invalid" {
				return true
			}
			name = n.Args[0]
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); !ok || key.Name != "Option" {
				return true
			}
			name = n.Value
		default:
			return true
		}
		if literal, ok := name.(*ast.BasicLit); ok {
			text, _ := strconv.Unquote(literal.Value)
			options = append(options, text)
		} else if known := computed[file.Name.Name]; known != nil {
			options = append(options, known...)
		} else {
			t.Errorf("%s: the option is not a literal; add it to computed", files.Position(name.Pos()))
		}
		return true
	})
	return options
}
