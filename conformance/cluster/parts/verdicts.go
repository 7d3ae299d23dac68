package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"sort"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	v1rest "k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// compareVerdicts asks the API server about every object of the files named on standard input, by a dry run, and
// `tidegate check` about the same object alone. Each object that one of them takes and the other refuses is a line of
// output: the file, the number of the object in it, and who refuses it.
func compareVerdicts() {
	config := flag.String("kubeconfig", "", "how to reach the API server")
	tidegate := flag.String("tidegate", "", "the binary")
	channel := flag.String("channel", "", "whose CRDs are installed")
	flag.Parse()
	rest, err := clientcmd.BuildConfigFromFlags("", *config)
	if err != nil {
		log.Fatal(err)
	}
	rest.QPS, rest.Burst, rest.WarningHandler = -1, -1, v1rest.NoWarnings{}
	resources, err := restmapper.GetAPIGroupResources(discovery.NewDiscoveryClientForConfigOrDie(rest))
	if err != nil {
		log.Fatal(err)
	}
	judge := judge{
		client:   dynamic.NewForConfigOrDie(rest),
		kinds:    restmapper.NewDiscoveryRESTMapper(resources),
		tidegate: *tidegate,
		channel:  *channel,
	}

	files := make(chan string)
	var lines []string
	var lock sync.Mutex
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for file := range files {
				found, err := judge.file(file)
				if err != nil {
					log.Fatalf("%s: %v", file, err)
				}
				lock.Lock()
				lines = append(lines, found...)
				lock.Unlock()
			}
		})
	}
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		files <- input.Text()
	}
	close(files)
	workers.Wait()
	sort.Strings(lines)
	for _, line := range lines {
		fmt.Println(line)
	}
	log.Printf("%d objects compared, %d kinds and %d fields are not of this channel", judge.compared, judge.absent, judge.unknown)
}

type judge struct {
	client   dynamic.Interface
	kinds    meta.RESTMapper
	tidegate string
	channel  string

	lock     sync.Mutex
	compared int
	absent   int
	unknown  int
}

// errAbsent is the verdict on what the channel does not have: another kind or version.
var errAbsent = errors.New("not in this channel")

func (j *judge) file(path string) ([]string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var lines []string
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for number := 1; ; number++ {
		document, err := documents.Read()
		if err == io.EOF {
			return lines, nil
		}
		if err != nil {
			return nil, err
		}
		var object unstructured.Unstructured
		if err := yaml.UnmarshalStrict(document, &object.Object); err != nil || object.GetKind() == "" || object.IsList() {
			continue // no object for an API server
		}
		server := j.server(&object)
		if server == errAbsent {
			j.count(&j.absent)
			continue
		}
		ours, warned, err := j.ours(document)
		if err != nil {
			return nil, err
		}
		// A field that Tidegate knows and the API server does not is one of the other channel. One that neither knows is
		// misspelt: the API server refuses it when it is told to be strict, and Tidegate warns.
		unknown := isUnknownField(server)
		if unknown && !warned && ours == "" && j.channel == "standard" {
			j.count(&j.unknown)
			continue
		}
		j.count(&j.compared)
		where := fmt.Sprintf("%s#%d", path, number)
		switch {
		case server == nil && ours != "":
			lines = append(lines, where+": refused by Tidegate alone, rule "+ours)
		case server == nil && warned:
			lines = append(lines, where+": has a field that Tidegate alone does not know")
		case server != nil && ours == "" && !(unknown && warned):
			lines = append(lines, where+": refused by the API server alone")
			log.Printf("%s: %v", where, server)
		}
	}
}

func (j *judge) count(what *int) {
	j.lock.Lock()
	*what++
	j.lock.Unlock()
}

// server is the API server's verdict.
func (j *judge) server(object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	mapping, err := j.kinds.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return errAbsent
	}
	object = object.DeepCopy()
	resource := dynamic.ResourceInterface(j.client.Resource(mapping.Resource))
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		// The namespace need not be there for the object to be right, but must be for the question to be answered.
		object.SetNamespace("default")
		resource = j.client.Resource(mapping.Resource).Namespace("default")
	}
	_, err = resource.Create(context.Background(), object, v1.CreateOptions{DryRun: []string{v1.DryRunAll}, FieldValidation: v1.FieldValidationStrict})
	if apierrors.IsAlreadyExists(err) { // told only of an object that is right
		return nil
	}
	return err
}

func isUnknownField(err error) bool {
	return err != nil && strings.Contains(err.Error(), "unknown field")
}

// ours is the rule that `tidegate check` finds broken by an object, or nothing, and whether it warns of a field that it
// does not know.
func (j *judge) ours(document []byte) (rule string, warned bool, err error) {
	command := exec.Command(j.tidegate, "check", "--cluster", "--color=never", "-")
	command.Stdin = bytes.NewReader(document)
	var said bytes.Buffer
	command.Stderr = &said
	var exit *exec.ExitError
	if err := command.Run(); err != nil && (!errors.As(err, &exit) || !exit.Exited()) {
		return "", false, err
	}
	for line := range strings.Lines(said.String()) {
		warned = warned || strings.HasPrefix(line, "warning[unknown-field]")
		// What is refused for its surroundings, which are not there, has no rule in brackets.
		if found, ok := strings.CutPrefix(line, "error["); ok && rule == "" {
			rule, _, _ = strings.Cut(found, "]")
		}
	}
	return rule, warned, nil
}
