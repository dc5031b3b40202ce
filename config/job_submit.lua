-- /etc/slurm/job_submit.lua: which jobs get nodes that route well.
--
-- An example for sarouter's placement, either way (held jobs or the node selection plugin):
-- slurm.conf: JobSubmitPlugins=lua. A site with a job_submit.lua of its own calls
-- sarouter_tag(job_desc) from its slurm_job_submit().
--
-- The tag is the administrator's comment "sarouter:prefer" or "sarouter:require", which users cannot
-- set. A job asks for it with `--comment=routing=prefer|require`, with `--routing=require` (the SPANK
-- option of plugin/slurm/spank, which does not know `prefer`), or gets it from the rules below.

-- Partitions whose jobs of at least so many nodes are tagged without asking.
local by_partition = {
    -- parallel = { nodes = 8, tag = "prefer" },
}

-- Seconds by which a tagged job's start is put off, so that the service sees it before the scheduler
-- does. If the service is away, the job just starts this much later. The service withdraws the delay
-- when it has chosen. 0 with the node selection plugin.
local delay = 5

-- Slurm's "not set" for 32 bits.
local NO_VAL = 4294967294

local function asked(job_desc)
    local word = (job_desc.comment or ""):match("routing=(%a+)")
    for i = 0, (job_desc.spank_job_env_size or 0) - 1 do
        -- As the option set it: Slurm puts SPANK_ before the name only for prologs and epilogs.
        word = (job_desc.spank_job_env[i] or ""):match("^ROUTING=(%a+)") or word
    end
    if word == "prefer" or word == "require" then
        return word
    end
end

function sarouter_tag(job_desc)
    local nodes = job_desc.min_nodes
    local tag = asked(job_desc)
    local rule = by_partition[job_desc.partition or ""]
    if not tag and rule and nodes and nodes < NO_VAL and nodes >= rule.nodes then
        tag = rule.tag
    end
    -- Jobs that name their nodes have chosen.
    if not tag or (job_desc.req_nodes or "") ~= "" then
        return
    end
    local comment = job_desc.admin_comment
    job_desc.admin_comment = (comment and comment ~= "" and comment .. " " or "") .. "sarouter:" .. tag
    local begins = job_desc.begin_time or 0
    local soonest = os.time() + delay
    if delay > 0 and begins < soonest then
        job_desc.begin_time = soonest
    end
end

function slurm_job_submit(job_desc, partitions, uid)
    sarouter_tag(job_desc)
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job, partitions, uid)
    return slurm.SUCCESS
end

return slurm.SUCCESS
