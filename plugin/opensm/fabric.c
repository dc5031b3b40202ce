/* See fabric.h. The reader is src/observe/ibnetdiscover. */
#include "fabric.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t guid_of(const osm_node_t *node)
{
	return cl_ntoh64(osm_node_get_node_guid(node));
}

static char letter_of(const osm_node_t *node)
{
	uint8_t type = osm_node_get_type(node);
	return type == IB_NODE_TYPE_SWITCH ? 'S' : type == IB_NODE_TYPE_ROUTER ? 'R' : 'H';
}

/* The port at the other end of a cable that is up at both ends, or NULL. */
static const osm_physp_t *far_end(const osm_physp_t *near)
{
	if (near == NULL || !osm_physp_is_valid(near))
		return NULL;
	const osm_physp_t *far = near->p_remote_physp;
	if (far == NULL || far == near || !osm_physp_is_valid(far) || far->p_remote_physp != near ||
	    !osm_link_is_healthy(near) || osm_physp_get_port_state(near) == IB_LINK_DOWN ||
	    osm_physp_get_port_state(far) == IB_LINK_DOWN)
		return NULL;
	return far;
}

/* Descriptions are bytes that anyone may set; a line must stay one. */
static void put_description(FILE *out, const osm_node_t *node)
{
	fputc('"', out);
	for (const char *c = node->print_desc; c != NULL && *c != '\0'; c++)
		fputc((unsigned char)*c < 0x20 || *c == 0x7F || *c == '"' ? '?' : *c, out);
	fputc('"', out);
}

static unsigned lid_of(const osm_physp_t *port)
{
	return port == NULL ? 0 : cl_ntoh16(osm_physp_get_base_lid(port));
}

static void put_end(FILE *out, const osm_physp_t *port)
{
	fprintf(out, "\"%c-%016" PRIx64 "\"[%u]", letter_of(port->p_node), guid_of(port->p_node), port->port_num);
	if (port->p_node->sw == NULL)
		fprintf(out, "(%" PRIx64 ")", cl_ntoh64(osm_physp_get_port_guid(port)));
}

static void put_cable(FILE *out, const osm_physp_t *near, const osm_physp_t *far)
{
	bool adapter = near->p_node->sw == NULL;
	fprintf(out, "[%u]", near->port_num);
	if (adapter)
		fprintf(out, "(%" PRIx64 ")", cl_ntoh64(osm_physp_get_port_guid(near)));
	fputs(" \t", out);
	put_end(out, far);
	fputs("\t\t# ", out);
	if (adapter)
		fprintf(out, "lid %u lmc %u ", lid_of(near), osm_physp_get_lmc(near));
	put_description(out, far->p_node);
	fprintf(out, " lid %u\n", lid_of(far->p_node->sw != NULL ? osm_node_get_physp_ptr(far->p_node, 0) : far));
}

static void put_node(FILE *out, osm_node_t *node)
{
	char letter = letter_of(node);
	unsigned ports = osm_node_get_num_physp(node);
	fprintf(out, "\ndevid=0x%x\n%s=0x%016" PRIx64 "\n", cl_ntoh16(node->node_info.device_id),
		letter == 'S' ? "switchguid" : letter == 'R' ? "rtguid" : "caguid", guid_of(node));
	fprintf(out, "%s\t%u \"%c-%016" PRIx64 "\"\t\t# ", letter == 'S' ? "Switch" : letter == 'R' ? "Rt" : "Ca",
		ports - 1, letter, guid_of(node));
	put_description(out, node);
	if (letter == 'S')
		fprintf(out, " base port 0 lid %u lmc 0", lid_of(osm_node_get_physp_ptr(node, 0)));
	fputc('\n', out);
	for (unsigned i = 1; i < ports; i++) {
		const osm_physp_t *near = osm_node_get_physp_ptr(node, i), *far = far_end(near);
		if (far != NULL)
			put_cable(out, near, far);
	}
}

char *fabric_text(const osm_subn_t *subn)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	if (out == NULL)
		return NULL;
	fputs("# Written by sarouter: a complete file ends with the line '# end of fabric'.\n", out);
	const cl_qmap_t *nodes = &subn->node_guid_tbl;
	for (cl_map_item_t *item = cl_qmap_head(nodes); item != cl_qmap_end(nodes); item = cl_qmap_next(item))
		put_node(out, (osm_node_t *)item);
	fputs("# end of fabric\n", out);
	bool failed = ferror(out) != 0;
	if (fclose(out) != 0 || failed) {
		free(text);
		return NULL;
	}
	return text;
}
