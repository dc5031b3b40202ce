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

-- What the job says by --traffic, for the choice of its nodes: Slurm shows nobody the option's word while a job waits.
local function traffic(job_desc)
    for i = 0, (job_desc.spank_job_env_size or 0) - 1 do
        local word = (job_desc.spank_job_env[i] or ""):match("^SAROUTER_TRAFFIC=([%w:*+@-]+)$")
        if word then
            return ";sarouter:pattern=" .. word
        end
    end
    return ""
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
    job_desc.admin_comment = (comment and comment ~= "" and comment .. " " or "") .. "sarouter:" .. tag .. traffic(job_desc)
    local begins = job_desc.begin_time or 0
    local soonest = os.time() + delay
    if delay > 0 and begins < soonest then
        job_desc.begin_time = soonest
    end
end

-- Hints: what a job exchanges, `--comment=sarouter:pattern=ring`. The service takes no notice of a wrong one, so it is
-- refused here, with the word that was probably meant. The patterns are those of `sarouter patterns`.
local patterns = {
    "linear", "shift", "alltoall", "random", "neighbor", "ring", "double-tree", "doubling", "halving", "bruck",
    "binomial", "halo2d", "halo3d", "permutations", "default",
}
local hints = { "pattern", "prefer", "require" }

-- Letters to change, leave out, put in or swap between two short words.
local function distance(a, b)
    local before, last = {}, {}
    for j = 0, #b do
        last[j] = j
    end
    for i = 1, #a do
        local row = { [0] = i }
        for j = 1, #b do
            local same = a:sub(i, i) == b:sub(j, j)
            row[j] = math.min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (same and 0 or 1))
            if i > 1 and j > 1 and a:sub(i, i) == b:sub(j - 1, j - 1) and a:sub(i - 1, i - 1) == b:sub(j, j) then
                row[j] = math.min(row[j], before[j - 2] + 1)
            end
        end
        before, last = last, row
    end
    return last[#b]
end

local function meant(word, words)
    local most, best = math.max(2, math.floor(#word / 3)), nil
    for _, known in ipairs(words) do
        local far = distance(word, known)
        if far <= most and far < #known then
            most, best = far - 1, known
        end
    end
    return best and "; did you mean " .. best .. "?" or ""
end

local function whole(text, least, most)
    local number = text:match("^%d+$") and tonumber(text)
    return number and number >= least and number <= most
end

-- What is wrong with one pattern of a hint.
local function wrong_pattern(text)
    local sides = text:match("^halo:(.*)$")
    if sides then
        local n = 0
        for side in (sides .. "x"):gmatch("([^x]*)x") do
            n = whole(side, 0, 65535) and n + 1 or 4
        end
        return (n < 2 or n > 3) and "pattern " .. text .. ": expected halo:AxB or halo:AxBxC" or nil
    end
    for _, kind in ipairs({ "groups", "rail-alltoall", "hierarchical" }) do
        local size = text:sub(1, #kind + 1) == kind .. ":" and text:sub(#kind + 2)
        if size or text == kind then
            local wrong = "pattern " .. text .. ": expected " .. kind .. ":G, G from 1"
            return not whole(size or "", 1, 4294967295) and wrong or nil
        end
    end
    if text == "halo" then
        return "pattern halo: expected halo2d, halo3d, halo:AxB or halo:AxBxC"
    end
    for _, known in ipairs(patterns) do
        if text == known then
            return nil
        end
    end
    return "there is no pattern \"" .. text .. "\"" .. meant(text, patterns)
end

local function wrong_mix(mix)
    local rest, rails = mix:match("^([^@]*)@(.*)$")
    if rails and rails ~= "same" and rails ~= "all" then
        return "@" .. rails .. ": expected @same or @all (rails)"
    end
    mix = rest or mix
    local n = 0
    for part in (mix .. "+"):gmatch("([^+]*)%+") do
        n = n + 1
        local weight, pattern = part:match("^([^*]*)%*(.*)$")
        if weight and not whole(weight, 1, 65535) then
            return "\"" .. weight .. "\" is no weight: 1 to 65535"
        end
        pattern = pattern or part
        local wrong = wrong_pattern(pattern)
        if wrong or (pattern == "default" and mix ~= "default") then
            return wrong or "there is no pattern \"default\" in a sum"
        end
    end
    return n > 8 and "a hint has at most 8 patterns" or nil
end

-- What is wrong with the hints of a comment; nil if nothing is.
function sarouter_wrong_hint(comment)
    local seen = false
    for word in (comment or ""):gmatch("[^%s;]+") do
        local said = word:match("^sarouter:(.*)$")
        if said and #said > 128 then
            return "a hint has at most 128 bytes"
        end
        for hint in ((said or "") .. ","):gmatch("([^,]*),") do
            local key, mix = hint:match("^([^=]*)=(.*)$")
            if key == "pattern" and seen then
                return "a hint says its pattern once"
            elseif key == "pattern" then
                seen = true
                local wrong = wrong_mix(mix)
                if wrong then
                    return wrong
                end
            elseif said and (key or (hint ~= "prefer" and hint ~= "require")) then
                local nearest = meant(key or hint, hints)
                for _, known in ipairs(hints) do
                    nearest = known == (key or hint) and ": expected pattern=PATTERN, prefer or require" or nearest
                end
                return "there is no hint \"" .. hint .. "\"" .. nearest
            end
        end
    end
end

function slurm_job_submit(job_desc, partitions, uid)
    local wrong = sarouter_wrong_hint(job_desc.comment)
    if wrong then
        slurm.log_user("sarouter: %s", wrong)
        return slurm.ERROR
    end
    sarouter_tag(job_desc)
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job, partitions, uid)
    local wrong = sarouter_wrong_hint(job_desc.comment)
    if wrong then
        slurm.log_user("sarouter: %s", wrong)
        return slurm.ERROR
    end
    return slurm.SUCCESS
end

return slurm.SUCCESS
