package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// vulnerabilityDatabase is what govulncheck reads.
const vulnerabilityDatabase = "https://vuln.go.dev"

// checkVulnerabilities runs govulncheck on all packages of the release. If its database cannot be reached, it says so and goes on.
func (r *release) checkVulnerabilities() error {
	if err := reachable(vulnerabilityDatabase + "/index/db.json"); err != nil {
		fmt.Printf("  The vulnerability database cannot be reached (%v), so THIS RELEASE IS NOT CHECKED for known vulnerabilities.\n"+
			"  Make it again where %s can be reached, before you publish it.\n", err, vulnerabilityDatabase)
		return nil
	}
	program := filepath.Join(r.scratch, "govulncheck")
	build := exec.Command("go", "build", "-o", program, "golang.org/x/vuln/cmd/govulncheck")
	build.Dir = filepath.Join(r.root, "tools", "release")
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build govulncheck: %w\n%s", err, out)
	}
	user := filepath.Join(r.scratch, "user") // a module that requires all of the release
	if err := os.Mkdir(user, 0o755); err != nil {
		return err
	}
	tags, err := r.tags()
	if err != nil {
		return err
	}
	get := []string{"get"}
	for _, tag := range tags {
		module := strings.TrimSuffix(repository+"/"+strings.TrimSuffix(tag, r.version), "/")
		get = append(get, module+"@"+r.version)
	}
	for _, args := range [][]string{{"mod", "init", "example.com/user"}, get} {
		if out, err := r.goCommand(user, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("go %s: %w\n%s", args[0], err, out)
		}
	}
	check := exec.Command(program, repository+"/...")
	check.Dir, check.Env = user, r.goCommand(user).Env
	check.Stdout, check.Stderr = os.Stdout, os.Stderr
	return check.Run()
}

// reachable returns an error if a URL cannot be read.
func reachable(url string) error {
	response, err := (&http.Client{Timeout: 10 * time.Second}).Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}
