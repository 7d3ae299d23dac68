package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// compareStatuses puts every file named on standard input into the cluster, each into namespaces of its own, and waits
// until the statuses that the controller wrote are those that `tidegate check` tells of the very same objects: all
// but addresses, what only a data plane can say, and times. What still differs after a while is its output.
func compareStatuses() {
	config := flag.String("kubeconfig", "", "how to reach the API server")
	tidegate := flag.String("tidegate", "", "the binary")
	least := flag.Int("least", 0, "how many statuses of these files there are to compare at least")
	patience := flag.Duration("patience", 2*time.Minute, "how long statuses may take")
	flag.Parse()
	settings, err := clientcmd.BuildConfigFromFlags("", *config)
	if err != nil {
		log.Fatal(err)
	}
	settings.QPS, settings.Burst, settings.WarningHandler = -1, -1, rest.NoWarnings{}
	resources, err := restmapper.GetAPIGroupResources(discovery.NewDiscoveryClientForConfigOrDie(settings))
	if err != nil {
		log.Fatal(err)
	}
	cluster := cluster{client: dynamic.NewForConfigOrDie(settings), kinds: restmapper.NewDiscoveryRESTMapper(resources)}

	input := bufio.NewScanner(os.Stdin)
	for number := 1; input.Scan(); number++ {
		if err := cluster.put(input.Text(), fmt.Sprintf("case%d", number)); err != nil {
			log.Fatalf("%s: %v", input.Text(), err)
		}
	}
	begun := time.Now()
	for {
		compared, differences, err := cluster.compare(*tidegate)
		if err != nil {
			log.Fatal(err)
		}
		if len(differences) == 0 {
			if compared < *least {
				log.Fatalf("%d statuses compared, fewer than %d: something has been left out", compared, *least)
			}
			log.Printf("%d statuses compared, all the same", compared)
			return
		}
		if time.Since(begun) > *patience {
			for _, difference := range differences {
				fmt.Println(difference)
			}
			log.Fatalf("%d statuses differ, of %d", len(differences), compared)
		}
		time.Sleep(time.Second)
	}
}

type cluster struct {
	client dynamic.Interface
	kinds  meta.RESTMapper
}

// put creates the objects of a file in namespaces that begin with `prefix`. What belongs to no namespace has it behind
// its name, so that files do not get into each other's way. What the API server refuses is not there for either side,
// and CRDs are the cluster's own.
func (c *cluster) put(path, prefix string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var objects []*unstructured.Unstructured
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := documents.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		var object unstructured.Unstructured
		if err := yaml.Unmarshal(document, &object.Object); err != nil || object.GetKind() == "" {
			continue
		}
		if object.GetKind() != "CustomResourceDefinition" {
			objects = append(objects, &object)
		}
	}
	names := map[string]string{}
	for _, object := range objects {
		if isClusterWide(object) {
			names[object.GetKind()+" "+object.GetName()] = object.GetName() + "-" + prefix
		}
	}
	// Namespaces first, with the labels that the file gives them.
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return rank(a) - rank(b) })
	for _, object := range objects {
		if object.GetKind() == "Namespace" {
			object.SetName(prefix + "-" + object.GetName())
		} else if isClusterWide(object) {
			object.SetName(names[object.GetKind()+" "+object.GetName()])
			move(object.Object, prefix)
		} else {
			if object.GetNamespace() == "" {
				object.SetNamespace("default")
			}
			move(object.Object, prefix)
			rename(object.Object, names)
			if err := c.namespace(object.GetNamespace()); err != nil {
				return err
			}
		}
		if err := c.create(object); err != nil {
			return err
		}
	}
	return nil
}

func rank(object *unstructured.Unstructured) int {
	if object.GetKind() == "Namespace" {
		return 0
	}
	return 1
}

func isClusterWide(object *unstructured.Unstructured) bool {
	return object.GetKind() == "GatewayClass" || object.GetKind() == "ClusterTrustBundle"
}

// rename has a value refer to classes and trust bundles of its own file by their new names.
func rename(value any, names map[string]string) {
	switch value := value.(type) {
	case map[string]any:
		if class, ok := value["gatewayClassName"].(string); ok && names["GatewayClass "+class] != "" {
			value["gatewayClassName"] = names["GatewayClass "+class]
		}
		if name, ok := value["name"].(string); ok && value["kind"] == "ClusterTrustBundle" && names["ClusterTrustBundle "+name] != "" {
			value["name"] = names["ClusterTrustBundle "+name]
		}
		for _, field := range value {
			rename(field, names)
		}
	case []any:
		for _, element := range value {
			rename(element, names)
		}
	}
}

// move puts a prefix before each namespace that a value names.
func move(value any, prefix string) {
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			if name, ok := field.(string); ok && (key == "namespace" || key == "kubernetes.io/metadata.name") && name != "" {
				value[key] = prefix + "-" + name
			} else {
				move(field, prefix)
			}
		}
	case []any:
		for _, element := range value {
			move(element, prefix)
		}
	}
}

func (c *cluster) namespace(name string) error {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("v1")
	object.SetKind("Namespace")
	object.SetName(name)
	return c.create(object)
}

func (c *cluster) create(object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	mapping, err := c.kinds.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil // not in this channel
	}
	// Where a file has statuses, they were written by others.
	status, hasStatus := object.Object["status"]
	resource := c.client.Resource(mapping.Resource).Namespace(object.GetNamespace())
	created, err := resource.Create(context.Background(), object, v1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return nil
	}
	if err == nil && hasStatus {
		created.Object["status"] = status
		_, err = resource.UpdateStatus(context.Background(), created, v1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			err = nil // the controller was quicker, and has its say
		}
	}
	return err
}

// What `check` reads, so far as the cluster has it.
var read = []schema.GroupKind{
	{Kind: "Namespace"}, {Kind: "Service"}, {Kind: "Secret"}, {Kind: "ConfigMap"},
	{Group: "discovery.k8s.io", Kind: "EndpointSlice"}, {Group: "certificates.k8s.io", Kind: "ClusterTrustBundle"},
	{Group: "gateway.networking.k8s.io", Kind: "GatewayClass"}, {Group: "gateway.networking.k8s.io", Kind: "Gateway"},
	{Group: "gateway.networking.k8s.io", Kind: "ListenerSet"}, {Group: "gateway.networking.k8s.io", Kind: "HTTPRoute"},
	{Group: "gateway.networking.k8s.io", Kind: "GRPCRoute"}, {Group: "gateway.networking.k8s.io", Kind: "TLSRoute"},
	{Group: "gateway.networking.k8s.io", Kind: "TCPRoute"}, {Group: "gateway.networking.k8s.io", Kind: "UDPRoute"},
	{Group: "gateway.networking.k8s.io", Kind: "BackendTLSPolicy"}, {Group: "gateway.networking.k8s.io", Kind: "ReferenceGrant"},
	{Group: "gateway.networking.x-k8s.io", Kind: "XBackend"}, {Group: "gateway.networking.x-k8s.io", Kind: "XBackendTrafficPolicy"},
	{Group: "gateway.tidegate.io", Kind: "GatewayParameters"},
}

// What put has put there. Others may have left something behind, which is compared, too, and not counted.
var ours = regexp.MustCompile(` case\d+-|-case\d+$`)

// compare tells of how many objects of the files it compared the statuses, and of each that differs, both.
func (c *cluster) compare(tidegate string) (int, []string, error) {
	var objects []any
	written := map[string]any{}
	for _, kind := range read {
		mapping, err := c.kinds.RESTMapping(kind)
		if err != nil {
			continue
		}
		list, err := c.client.Resource(mapping.Resource).List(context.Background(), v1.ListOptions{})
		if err != nil {
			return 0, nil, err
		}
		for _, object := range list.Items {
			objects = append(objects, object.Object)
			written[identity(object.Object)] = said(object.Object)
		}
	}
	told, err := check(tidegate, map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	if err != nil {
		return 0, nil, err
	}
	compared := 0
	var differences []string
	for _, identity := range slices.Sorted(maps.Keys(told)) {
		check, cluster := lines(told[identity]), lines(written[identity])
		if check == "null\n" && cluster == "null\n" {
			continue
		}
		if ours.MatchString(identity) {
			compared++
		}
		if check != cluster {
			differences = append(differences, fmt.Sprintf("%s\n--- check\n%s+++ cluster\n%s", identity, check, cluster))
		}
	}
	return compared, differences, nil
}

// check is what `tidegate check` says of the objects, by their identity.
func check(tidegate string, list any) (map[string]any, error) {
	input, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	command := exec.Command(tidegate, "check", "--cluster", "-o", "json", "-")
	command.Stdin = bytes.NewReader(input)
	var exit *exec.ExitError
	output, err := command.Output()
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		return nil, err
	}
	var answer struct{ Items []map[string]any }
	if err := json.Unmarshal(output, &answer); err != nil {
		return nil, err
	}
	told := map[string]any{}
	for _, object := range answer.Items {
		told[identity(object)] = said(object)
	}
	return told, nil
}

func identity(object map[string]any) string {
	value := unstructured.Unstructured{Object: object}
	return fmt.Sprintf("%s %s/%s", value.GetKind(), value.GetNamespace(), value.GetName())
}

// said is the part of a status that is a matter of meaning alone.
func said(object map[string]any) any {
	switch object["kind"] {
	case "Service", "Namespace":
		return nil
	}
	status, ok := object["status"].(map[string]any)
	if !ok {
		return nil
	}
	delete(status, "addresses")
	// Those of a GatewayClass are a matter of the cluster's CRDs, and the suite reads them.
	delete(status, "supportedFeatures")
	// None attached and nothing said of it are one; a cluster is spared the write.
	if fmt.Sprint(status["attachedListenerSets"]) == "0" {
		delete(status, "attachedListenerSets")
	}
	plain(status)
	if len(status) == 0 {
		return nil
	}
	return status
}

// Conditions that a data plane, an address, an issuer or the cluster's CRDs decide.
var elsewhere = []string{"Programmed", "AddressesAssigned", "SupportedVersion", "gateway.tidegate.io/CertificatesIssued"}

// plain takes away times and what is decided elsewhere, and gives conditions one order.
func plain(value any) {
	switch value := value.(type) {
	case map[string]any:
		delete(value, "lastTransitionTime")
		if conditions, ok := value["conditions"].([]any); ok {
			kind := func(condition any) string {
				name, _ := condition.(map[string]any)["type"].(string)
				return name
			}
			conditions = slices.DeleteFunc(conditions, func(condition any) bool { return slices.Contains(elsewhere, kind(condition)) })
			slices.SortFunc(conditions, func(a, b any) int { return strings.Compare(kind(a), kind(b)) })
			value["conditions"] = conditions
		}
		for _, field := range value {
			plain(field)
		}
	case []any:
		for _, element := range value {
			plain(element)
		}
	}
}

func lines(value any) string {
	text, err := yaml.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
